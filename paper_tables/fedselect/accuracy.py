"""Tables 1 to 3: methods, personalisation limits, and what is personalised."""

from __future__ import annotations

from math import nan

import pandas as pd

from repfl.paper_tables.core import captions, ranking, statistics, tables
from repfl.paper_tables.core.claims import Check, compare, numbers
from repfl.paper_tables.core.evidence import Evidence, places, why_missing
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table
from repfl.paper_tables.core.tables import Row
from repfl.paper_tables.fedselect import exchange, facts
from repfl.paper_tables.fedselect.settings import (
    ABLATIONS,
    ALPHA_LOST,
    ALPHAS,
    BASELINES,
    CIFAR10,
    CIFAR10C,
    COLUMNS,
    DATASETS,
    LIMITS,
    LOCAL,
    METHODS,
    MINI,
    OURS,
    PAPER,
    Folded,
    printed_table,
    smoke_note,
)

SCORED = (
    "Personalised methods are scored after local training in the last round, without a final"
    " averaging, as FedSelect's code does; FedAvg + FT and FedBABU after fine-tuning; FedAvg as one"
    " global model whose BN statistics are averaged too (README, 12 and 13). The added rows show"
    " the same runs after averaging, and FedAvg with each client's own statistics."
)
PASSES = (
    "An epoch of LocalAlt is two passes over the data, so FedSelect takes up to twice as many steps"
    " as the others; added rows give three baselines twice the epochs (README, 8)."
)
CODE = (
    "“Code's rules”: growth every third round, limit tested before growing, weights only, change"
    " since the last growth (README, 1 to 5). “Code as it runs”: the same, with batch norm on its"
    " running statistics from the second round on (README, 13)."
)
RULES, RUN = "code's rules", "code as it runs"

TABLE1_ROWS = (
    *(Row(name) for name in METHODS),
    *(Row(f"FedSelect, {rules}", published="", aside=True) for rules in (RULES, RUN)),
    Row("FedSelect, after averaging", published="", source=OURS, point="post_agg", aside=True),
    Row("FedRep, after averaging", published="", source="FedRep", point="post_agg", aside=True),
    Row("FedAvg, own BN statistics", published="", aside=True),
    Row("FedAvg + FT, head only", published="", only=(CIFAR10,), aside=True),
    *(
        Row(f"{name}, twice the epochs", published="", only=(CIFAR10,), aside=True)
        for name in (LOCAL, "FedPAC", "LG-FedAvg")
    ),
)
REFERENCE = "FedAvg, after local training"
TABLE2_ROWS = (
    *(Row(f"α = {alpha}", published=OURS, setting=f"alpha={alpha}") for alpha in ALPHAS),
    *(Row(name, published="", only=(CIFAR10,), aside=True) for name in ("α = 0", "α = 1")),
    *(
        Row(f"α = {alpha}, {RULES}", published="", only=(CIFAR10,), aside=True)
        for alpha in ("0", *ALPHAS)
    ),
    *(Row(f"α = {alpha}, {RUN}", published="", only=(CIFAR10,), aside=True) for alpha in ALPHAS),
    Row(REFERENCE, published="", source="FedAvg", point="pre_agg", only=(CIFAR10,), aside=True),
)
SHARES = tuple(
    Column(f"{key}/share", name, "Personal at the end", digits=1, best=None)
    for key, name in DATASETS.items()
)
TABLE3_ROWS = (
    *(Row(name) for name in ABLATIONS),
    *(
        Row(f"FedSelect, α = {alpha}", published=OURS, setting=f"alpha={alpha}")
        for alpha in ("0.30", "0.50")
    ),
    *(
        Row(f"{name}, α = 0.50", published="", aside=True)
        for name in ("Personalize Least", "Random")
    ),
)


# -- Table 1 ---------------------------------------------------------------------------------------


def table1(evidence: Evidence) -> Table:
    """Ten methods on four data sets."""
    evidence = Folded(evidence)
    rows = tables.with_guests(TABLE1_ROWS, evidence)
    frame = printed_table(evidence, "1", rows)
    return Table(
        PAPER,
        "table1",
        "Table 1: personalised accuracy of ten methods on four data sets",
        captions.caption(
            evidence,
            "Accuracy under label shift (CIFAR-10, Mini-ImageNet), both shifts (CIFAR10-C) and"
            " feature shift.",
        ),
        evidence.scale,
        (
            SCORED,
            PASSES,
            CODE,
            f"FedSelect has the paper's best α of each column. {ALPHA_LOST}",
            *smoke_note(evidence.scale),
        ),
        table1_claims(evidence, frame),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, COLUMNS),
        ranking.orderings(frame, COLUMNS),
        ranking.summary(evidence, frame, rows, against=OURS),
    )


def table1_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """The sentences of section 5.2 on Table 1."""
    return (
        compare(frame, "FedSelect is best on all four data sets", _best),
        facts.gain(evidence, frame),
        facts.set_up(evidence),
        compare(
            frame,
            "FedBABU, FedPer, FedRep and Ditto fall below local training on CIFAR10-C and"
            " Mini-ImageNet",
            _degrade,
        ),
        compare(
            frame,
            "FedAvg + FT is competitive with other personalised methods (not below their mean)",
            _competitive,
        ),
        facts.lattice(evidence, "1"),
        facts.repeats(evidence)[0],
    )


def _best(wide: pd.DataFrame) -> tuple[bool, str]:
    winners = [str(wide.loc[list(METHODS), key].idxmax()) for key in DATASETS]
    return set(winners) == {OURS}, "best: " + ", ".join(winners)


def _degrade(wide: pd.DataFrame) -> tuple[bool, str]:
    lead = (
        wide.loc[["FedBABU", "FedPer", "FedRep", "Ditto"], [CIFAR10C, MINI]]
        - wide.loc[LOCAL, [CIFAR10C, MINI]]
    )
    below = int((lead < 0).to_numpy().sum())
    return (
        below == lead.size,
        (
            f"{below} of {lead.size} values lie below, by {-lead.to_numpy().mean():.2f} points on"
            " average"
        ),
    )


def _competitive(wide: pd.DataFrame) -> tuple[bool, str]:
    others = wide.loc[[name for name in BASELINES if name not in (LOCAL, "FedAvg", "FedAvg + FT")]]
    own, theirs = float(numbers(wide, "FedAvg + FT").mean()), float(others.to_numpy().mean())
    return own >= theirs, f"{own:.2f} against {theirs:.2f} on average over the data sets"


# -- Table 2 ---------------------------------------------------------------------------------------


def table2(evidence: Evidence) -> Table:
    """Four personalisation limits, and how much of the model becomes personal under each."""
    rows = tables.with_guests(TABLE2_ROWS, evidence)
    accuracy = printed_table(evidence, "2", rows)
    shares = personal_shares(evidence, accuracy)
    frame = pd.concat([accuracy, shares], ignore_index=True)
    columns = (*(Column(c.key, c.label, "Accuracy") for c in COLUMNS), *SHARES)
    return Table(
        PAPER,
        "table2",
        "Table 2: FedSelect under four personalisation limits",
        captions.caption(
            evidence, "FedSelect for four limits α on the share of a tensor that may be personal."
        ),
        evidence.scale,
        (
            ALPHA_LOST,
            (
                "Personal at the end: percent of the maskable parameters, mean over clients, after"
                " the last growth; the paper prints none."
            ),
            CODE,
            *smoke_note(evidence.scale),
        ),
        table2_claims(evidence, accuracy, shares),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, columns, corner="α"),
        ranking.orderings(frame, columns),
        ranking.summary(evidence, accuracy, rows, against="α = 0.50"),
    )


def personal_shares(evidence: Evidence, accuracy: pd.DataFrame) -> pd.DataFrame:
    """The share of personal parameters after the last round, for every FedSelect cell of the
    table.
    """
    found, cells = [], places(evidence)
    for row, key in zip(accuracy["row"], accuracy["column"], strict=True):
        planned = cells.get((str(row), str(key)), evidence.cells.iloc[:0])
        if planned.empty or set(planned["method"]) != {"fedselect"}:
            continue
        spread = statistics.spread(
            [100 * exchange.personal(metrics) for metrics in planned["metrics"]]
        )
        cell = {
            "row": row,
            "column": f"{key}/share",
            **tables.printed_fields(None),
            "ours": spread.mean,
            "std": spread.std,
        }
        cell |= {
            "seeds": spread.count,
            "low": spread.low,
            "high": spread.high,
            "reason": why_missing(planned, evidence.scale),
        }
        cell |= {
            "scale": evidence.scale,
            "floor": nan,
            "method": "fedselect",
            "ids": tuple(planned.loc[planned["status"] == "done", "id"]),
        }
        found.append(cell | tables.NO_VERDICT)
    return pd.DataFrame(found, columns=list(CELL_FIELDS))


def table2_claims(
    evidence: Evidence, accuracy: pd.DataFrame, shares: pd.DataFrame
) -> tuple[Claim, ...]:
    """The sentences of sections 4.4 and 5.2 on the limit."""
    return (
        compare(
            accuracy, "A limit in the middle is best: neither the lowest nor the highest α", _middle
        ),
        exchange.equals_fedavg(evidence),
        exchange.within_limit(shares),
        exchange.cheaper_over_time(evidence),
        facts.lattice(evidence, "2"),
    )


def _middle(wide: pd.DataFrame) -> tuple[bool, str]:
    best = [str(wide.loc[list(LIMITS), key].idxmax()) for key in DATASETS]
    return not {LIMITS[0], LIMITS[-1]} & set(best), "best: " + ", ".join(best)


# -- Table 3 ---------------------------------------------------------------------------------------


def table3(evidence: Evidence) -> Table:
    """Personalising what moves least, one layer, or anything."""
    rows = tables.with_guests(TABLE3_ROWS, evidence)
    frame = printed_table(evidence, "3", rows)
    notes = (
        (
            "Layers A to D are lost with the appendix. Ours, evenly spaced from first to last: of a"
            " ResNet-18 the stem, the last convolution of the first block of stage 2, the first of"
            " the last block of stage 3, and the classifier (README, 24)."
        ),
        (
            "The share of the rows Personalize Least and Random is not stated. Ours is α = 0.30;"
            " the added rows have 0.50 (README, 25)."
        ),
        ALPHA_LOST,
    )
    return Table(
        PAPER,
        "table3",
        "Table 3: what is personalised",
        captions.caption(evidence, "FedSelect with other rules for what becomes personal."),
        evidence.scale,
        (*notes, *smoke_note(evidence.scale)),
        table3_claims(evidence, frame),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, COLUMNS, corner="Variant"),
        ranking.orderings(frame, COLUMNS),
        ranking.summary(evidence, frame, rows, against="FedSelect, α = 0.30"),
    )


def table3_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """“All ablations perform worse than FedSelect”, against either α and against the better one."""
    both = ("FedSelect, α = 0.30", "FedSelect, α = 0.50")

    def worse(*rivals: str) -> Check:
        def check(wide: pd.DataFrame) -> tuple[bool, str]:
            lead = wide.loc[list(rivals)].max() - wide.loc[list(ABLATIONS)]
            wins = int((lead > 0).to_numpy().sum())
            return (
                wins == lead.size,
                (
                    f"{wins} of {lead.size} values lie below; least lead"
                    f" {lead.to_numpy().min():+.2f} points"
                ),
            )

        return check

    return (
        compare(
            frame,
            "All ablations perform worse than FedSelect with the better α of each data set",
            worse(*both),
        ),
        *(compare(frame, f"All ablations perform worse than {row}", worse(row)) for row in both),
        facts.lattice(evidence, "3", ABLATIONS),
        facts.repeats(evidence)[1],
    )
