"""Table V: the score as it is, scaled per tensor, scaled over all entries, and restricted to the
classifier.
"""

from __future__ import annotations

import pandas as pd

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.result import Claim, Column, Table, claim
from repfl.paper_tables.core.tables import Place, Row
from repfl.paper_tables.fedobp.claims import FOLDER
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    OURS,
    PAPER,
    PRINTED,
    SAME_DATA,
    SINGLE,
    key,
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
    return forms.table(
        evidence,
        (PAPER, "table5"),
        "Table V: normalisation of the score",
        "FedOBP under four normalisations of its score; the paper has data sets as rows.",
        number="V",
        rows=ROWS,
        columns=COLUMNS,
        places=PLACES,
        printing=SINGLE,
        compared=True,
        notes=(TWICE, CLS, EMA, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda frame: (*judge_all(evidence, FOLDER, "table5", frame), same_masks(evidence)),
        corner="Score",
    )


def same_masks(evidence: Evidence) -> Claim:
    """Return the claim that runs of NoNorm and GlobalNorm are equal: both rank entries alike, up to
    ties that rounding makes.
    """
    words = (
        "NoNorm and GlobalNorm without CLS select the same entries, so their accuracies are equal"
    )
    gaps = []
    for tail in ("", ", as defined"):
        done = [
            pick(evidence, row=f"{name}{tail}", done=True).set_index(["column", "seed"])["accuracy"]
            for name in (NORMS[0], NORMS[2])
        ]
        both = pd.concat(done, axis=1, join="inner")
        gaps += list(100 * (both.iloc[:, 0] - both.iloc[:, 1]).abs()) if len(both) else []
    equal = sum(gap == 0 for gap in gaps)
    detail = (
        f"{equal} of {len(gaps)} pairs of runs end alike, the largest difference is"
        f" {max(gaps):.2f} points (README, 11)"
        if gaps
        else "no pair of runs"
    )
    return claim(
        "same-entries",
        words,
        equal == len(gaps) if gaps else None,
        detail,
        evidence.scale,
        place="V-E",
        printed=_printed_equal(evidence),
        any_run=True,
    )


def _printed_equal(evidence: Evidence) -> bool:
    rows = evidence.published[evidence.published["table"] == "V"]
    wide = rows.pivot(index="dataset", columns="method", values="value")
    return bool((wide[f"{OURS} {NORMS[0]}"] == wide[f"{OURS} {NORMS[2]}"]).all())
