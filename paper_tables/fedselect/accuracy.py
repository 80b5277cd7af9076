"""Tables 1 to 3: methods, personalisation limits, and what is personalised."""

from __future__ import annotations

import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.evidence import Evidence, folded, noted, places
from repfl.paper_tables.core.result import CELL_FIELDS, Claim, Column, Table
from repfl.paper_tables.core.tables import Row
from repfl.paper_tables.fedselect import claims
from repfl.paper_tables.fedselect.settings import (
    ABLATIONS,
    ALPHAS,
    COLUMNS,
    DATASETS,
    FOLDER,
    METHODS,
    OURS,
    PAPER,
    SAME_DATA,
    SUFFIXES,
    printed_table,
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
    "“Code's rules”: growth every third round, at the limit too, weights only, change since the"
    " last growth (README, 1 to 5). “Code as it runs”: the same, with batch norm on its running"
    " statistics from the second round on (README, 13)."
)
DRAWN = (
    "“Classes drawn”: another setting than the paper's. Each seed draws the classes of the ten"
    " clients, and with seed 2 one client has a single class; “exact cut” ends the last growth at"
    " the limit, as neither paper nor code does (README, 2 and 29)."
)
TABLE1_ROWS = (
    *(Row(name) for name in METHODS),
    *(
        Row(f"{name}, after averaging", published="", source=name, point="post_agg", aside=True)
        for name in (OURS, "FedRep")
    ),
)
REFERENCE = "FedAvg, after local training"
TABLE2_ROWS = (
    *(Row(f"α = {alpha}", published=OURS, setting=f"alpha={alpha}") for alpha in ALPHAS),
    Row(REFERENCE, published="", source="FedAvg", point="pre_agg", aside=True),
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
)


# -- Table 1 ---------------------------------------------------------------------------------------


def table1(evidence: Evidence) -> Table:
    """Ten methods on four data sets."""
    evidence = folded(evidence, *SUFFIXES)
    rows = tables.with_further_rows(TABLE1_ROWS, evidence)
    best_alpha = "FedSelect has the paper's best α of each column."
    return forms.table(
        evidence,
        (PAPER, "table1"),
        "Table 1: personalised accuracy of ten methods on four data sets",
        "Accuracy under label shift (CIFAR-10, Mini-ImageNet), both shifts (CIFAR10-C) and feature"
        " shift.",
        rows=rows,
        columns=COLUMNS,
        frame=printed_table(evidence, "1", rows),
        compared=True,
        notes=(SCORED, PASSES, CODE, DRAWN, best_alpha, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda frame: table1_claims(evidence, frame),
    )


def table1_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """The sentences of section 5.2 on Table 1, and of 4.4 on the cost of a round."""
    return (
        *judge_all(evidence, FOLDER, "table1", frame),
        claims.gain(evidence, frame),
        claims.set_up(evidence),
        claims.lattice(evidence, "1"),
        claims.best_limit_shown(evidence),
        shared_claims.same_work(
            evidence,
            (
                "similar-complexity",
                "FedSelect has a time complexity similar to that of FedRep and FedPAC (at most"
                " twice the multiply-adds of a round)",
                "4.4",
            ),
            [(OURS, "FedRep"), (OURS, "FedPAC")],
            DATASETS,
            2.0,
        ),
    )


# -- Table 2 ---------------------------------------------------------------------------------------


def table2(evidence: Evidence) -> Table:
    """Four personalisation limits, and how much of the model becomes personal under each."""
    rows = tables.with_further_rows(TABLE2_ROWS, evidence)
    accuracy = printed_table(evidence, "2", rows)
    shares = personal_shares(evidence, accuracy)
    shown = (
        "Personal at the end: percent of the maskable parameters, mean over clients, after the last"
        " growth; the paper prints none."
    )
    return forms.table(
        evidence,
        (PAPER, "table2"),
        "Table 2: FedSelect under four personalisation limits",
        "FedSelect for four limits α, below which the personal share of a tensor grows.",
        rows=rows,
        columns=(*(Column(c.key, c.label, "Accuracy") for c in COLUMNS), *SHARES),
        frame=pd.concat([accuracy, shares], ignore_index=True),
        scored=accuracy,
        compared=True,
        notes=(shown, CODE, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda _: table2_claims(evidence, accuracy, shares),
        corner="α",
    )


def personal_shares(evidence: Evidence, accuracy: pd.DataFrame) -> pd.DataFrame:
    """Return the share of personal parameters after the last round, for every FedSelect cell of the
    table.
    """
    lines, cells = [], places(evidence)
    for row, key in zip(accuracy["row"], accuracy["column"], strict=True):
        planned = cells.get((str(row), str(key)), evidence.cells.iloc[:0])
        if planned.empty or set(planned["method"]) != {"fedselect"}:
            continue
        done = planned.loc[planned["status"] == "done", "metrics"]
        values = [100 * noted(metrics, claims.PERSONAL) for metrics in done]
        fields = {"row": row, "column": f"{key}/share", **tables.printed_fields(None)}
        lines.append(
            fields | our_numbers.gather(planned, evidence.scale, values) | tables.NO_VERDICT
        )
    return pd.DataFrame(lines, columns=list(CELL_FIELDS))


def table2_claims(
    evidence: Evidence, accuracy: pd.DataFrame, shares: pd.DataFrame
) -> tuple[Claim, ...]:
    """The sentences of sections 4.4 and 5.2 on the limit."""
    return (
        *judge_all(evidence, FOLDER, "table2", accuracy),
        claims.equals_fedavg(evidence),
        claims.stops_at_limit(evidence, shares),
        claims.cheaper_over_time(evidence),
        claims.lattice(evidence, "2"),
    )


# -- Table 3 ---------------------------------------------------------------------------------------


def table3(evidence: Evidence) -> Table:
    """Personalising what moves least, one layer, or anything."""
    rows = tables.with_further_rows(TABLE3_ROWS, evidence)
    layers = (
        "Layers A to D are in Appendix B, which we do not have. Ours, evenly spaced from first to"
        " last: of a ResNet-18 the stem, the last convolution of the first block of stage 2, the"
        " first of the last block of stage 3, and the classifier (README, 24)."
    )
    share = (
        "The share of the rows Personalize Least and Random is not stated. Ours is α = 0.30; the"
        " added rows have 0.50 (README, 25)."
    )
    return forms.table(
        evidence,
        (PAPER, "table3"),
        "Table 3: what is personalised",
        "FedSelect with other rules for what becomes personal.",
        rows=rows,
        columns=COLUMNS,
        frame=printed_table(evidence, "3", rows),
        compared=True,
        notes=(layers, share, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda frame: table3_claims(evidence, frame),
        corner="Variant",
    )


def table3_claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Section 5.2 on what is personalised."""
    return (
        *judge_all(evidence, FOLDER, "table3", frame),
        claims.lattice(evidence, "3", ABLATIONS),
        claims.rows_repeated(evidence),
    )
