"""Table V: the score as it is, scaled per tensor, scaled over all entries, and restricted to the
classifier.
"""

from __future__ import annotations

import pandas as pd

from repfl.paper_tables.core import captions, ranking, tables
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.result import Claim, Column, Table
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.fedobp import text
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    OURS,
    PAPER,
    PRINTED,
    SINGLE,
    key,
    smoke_note,
)

LEVEL = "Dirichlet level not printed (author logs: Dir(0.1))"
COLUMNS = tuple(Column(key(short), label, "Dir(0.1)") for short, label in DATASETS.items())
PLACES = {key(short): Place(PRINTED[short], LEVEL) for short in DATASETS}
AS_LOGGED = {key(short): key(short, "0.1", "-m0.7") for short in DATASETS}
NORMS = ("NoNorm", "LayerNorm", "GlobalNorm w/o CLS", "GlobalNorm with CLS")
ROWS = (
    *(Row(name, published=f"{OURS} {name}", recipes=AS_LOGGED) for name in NORMS),
    *(Row(f"{name}, as defined", published="", aside=True) for name in NORMS),
)
TWICE = (
    "28 of Table V's 32 numbers are the maxima of single runs that the authors logged in January"
    " 2025: momentum 0.7, mostly other quantiles than Table II's and, as that week's code has it,"
    " the first score |(θ_i − θ_g) θ_i|. The main rows repeat that; the rows “as defined” use"
    " equation 19, Table II's quantiles and no momentum. README, 8."
)
CLS = (
    "With CLS the quantile is one over classifier entries only. The logged ones keep as many"
    " entries as the runs without CLS on CIFAR-10, CIFAR-100, MNIST and OrganCMNIST, but not on"
    " EMNIST (3,000 against 3,044), SVHN (260 against 88), Fashion-MNIST (48 against 172) and"
    " OrganAMNIST (292 against 17,477). As defined: as many as in Table II. README, 24."
)
EMA = (
    "Four printed CLS cells (MNIST, Fashion-MNIST, both organ sets) are not those of the CLS logs"
    " but of runs without CLS and with an average over visits. README, 9."
)


def table5(evidence: Evidence) -> Table:
    """Four normalisations on eight data sets."""
    rows = tables.with_guests(ROWS, evidence)
    frame = tables.accuracy_frame(evidence, "V", rows, COLUMNS, PLACES, SINGLE)
    return Table(
        PAPER,
        "table5",
        "Table V: normalisation of the score",
        captions.caption(
            evidence,
            "FedOBP under four normalisations of its score; the paper has data sets as rows.",
        ),
        evidence.scale,
        (TWICE, CLS, EMA, *smoke_note(evidence.scale)),
        (*claims(evidence, frame), same_masks(evidence), layer_norm(evidence, frame)),
        tables.done_ids(evidence),
        frame,
        tables.layout_of(frame, rows, COLUMNS, corner="Score"),
        ranking.orderings(frame, COLUMNS),
        ranking.summary(evidence, frame, rows, against=NORMS[2]),
    )


# -- section V-E -----------------------------------------------------------------------------------


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """The accuracies that the prose quotes."""
    no, layer, whole, cls = NORMS

    def quote(sentence: str, *cells: tuple[str, str]) -> Claim:
        rows = pd.concat([_rows(evidence, PRINTED[short], norm) for short, norm in cells])
        stated = dict(zip(((key(s), n) for s, n in cells), rows["value"], strict=False))
        shown = frame[
            [(c, r) in stated for c, r in zip(frame["column"], frame["row"], strict=True)]
        ]
        return text.weigh(shown, rows, sentence, lambda wide, slack: _quoted(wide, stated, slack))

    return (
        quote(
            "NoNorm reaches 96.82 on Fashion-MNIST and 66.60 on OrganCMNIST",
            ("fmnist", no),
            ("organc", no),
        ),
        quote(
            "GlobalNorm without CLS reaches 99.40 on MNIST and 67.47 on OrganAMNIST",
            ("mnist", whole),
            ("organa", whole),
        ),
        quote(
            "On CIFAR-10 NoNorm and GlobalNorm without CLS reach 87.52, LayerNorm 85.00",
            ("cifar10", no),
            ("cifar10", whole),
            ("cifar10", layer),
        ),
        quote(
            "On CIFAR-100 NoNorm and GlobalNorm without CLS reach 45.98, LayerNorm 41.83",
            ("cifar100", no),
            ("cifar100", whole),
            ("cifar100", layer),
        ),
        quote("On EMNIST NoNorm reaches 94.92, LayerNorm 94.14", ("emnist", no), ("emnist", layer)),
        quote(
            "Restricted to the classifier, CIFAR-100 reaches 44.89 and EMNIST 94.78",
            ("cifar100", cls),
            ("emnist", cls),
        ),
    )


def _rows(evidence: Evidence, dataset: str, norm: str) -> pd.DataFrame:
    return text.told(evidence, "V-E", dataset=dataset, method=f"{OURS} {norm}").head(1)


def _quoted(
    wide: pd.DataFrame, stated: dict[tuple[str, str], float], slack: float
) -> tuple[bool, str]:
    found = {place: float(wide[place[0]][place[1]]) for place in stated}
    holds = all(abs(found[place] - stated[place]) <= slack for place in stated)
    return holds, ", ".join(
        f"{norm} on {column} {value:.2f}" for (column, norm), value in found.items()
    )


def layer_norm(evidence: Evidence, frame: pd.DataFrame) -> Claim:
    """The one trend of Table V."""

    def check(wide: pd.DataFrame, slack: float) -> tuple[bool, str]:
        behind = wide.loc["LayerNorm"] < wide.loc["NoNorm"]
        return (
            bool(behind.all()),
            f"LayerNorm lies below NoNorm in {list(behind).count(True)} of {len(behind)} columns",
        )

    planned = set(evidence.cells["row"] + "@" + evidence.cells["column"])
    here = [column.key for column in COLUMNS if f"NoNorm@{AS_LOGGED[column.key]}" in planned]
    shown = frame[frame["row"].isin(NORMS[:2]) & frame["column"].isin(here)]
    return text.weigh(
        shown, evidence.published[:0], "LayerNorm consistently underperforms", check, quantity=False
    )


def same_masks(evidence: Evidence) -> Claim:
    """NoNorm and GlobalNorm rank entries alike, so their runs must be the same up to ties that
    rounding makes.
    """
    words = (
        "NoNorm and GlobalNorm without CLS select the same entries, so their accuracies are equal"
    )
    gaps = []
    for tail in ("", ", as defined"):
        done = [
            pick(evidence, row=f"{name}{tail}", done=True).set_index(["column", "seed"])["value"]
            for name in (NORMS[0], NORMS[2])
        ]
        both = pd.concat(done, axis=1, join="inner")
        gaps += list(100 * (both.iloc[:, 0] - both.iloc[:, 1]).abs()) if len(both) else []
    printed = _printed_equal(evidence)
    if not gaps:
        return Claim(words, None, f"no pair of runs at the {evidence.scale} scale", printed)
    equal = sum(gap == 0 for gap in gaps)
    detail = (
        f"{equal} of {len(gaps)} pairs of runs at the {evidence.scale} scale end alike, the largest"
        f" difference is {max(gaps):.2f} points"
    )
    return Claim(words, equal == len(gaps), detail + " (README, 11)", printed)


def _printed_equal(evidence: Evidence) -> bool:
    rows = evidence.published[evidence.published["table"] == "V"]
    wide = rows.pivot(index="dataset", columns="method", values="value")
    return bool((wide[f"{OURS} {NORMS[0]}"] == wide[f"{OURS} {NORMS[2]}"]).all())
