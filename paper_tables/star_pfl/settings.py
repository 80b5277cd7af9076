"""The two tasks of the paper, its six methods, and what its artefacts share."""

from __future__ import annotations

from pathlib import Path

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.evidence import Changed, Evidence
from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Row

PAPER = "star-pfl"
FOLDER = Path(__file__).parent
OURS = "Star-PFL"
LOCAL = "Local"
SETTINGS = printed_recipes(PAPER)
PLACES = {each.key: each.place for each in SETTINGS}
KEYS = {tuple(each.key.split("-dir")): each.key for each in SETTINGS}
"""The recipe of a task and an alpha."""
TASKS = {each.key.partition("-")[0]: each.column.group for each in SETTINGS}
ALPHAS = tuple(dict.fromkeys(alpha for _, alpha in KEYS))
PRINTING = Printing(rule="max")
"""One run (seed 0) on the partition that the published code draws; no deviations (README, 12 and
19).
"""
CLIENTS = 20
HALF = 0.0005
"""How far three printed decimals round a number away."""

METHODS = (LOCAL, "FedAvg", "FedBN", "FedAP", "LotteryFL", OURS)
BASELINES = METHODS[:-1]
ROWS = (
    *(Row(name) for name in METHODS),
    *(
        Row(
            f"{name}, {words}round by validation",
            published="",
            source=name,
            point=point,
            rule="best-val",
            aside=True,
        )
        for words, point, names in (("", None, METHODS), ("aggregated, ", "post_agg", METHODS[1:]))
        for name in names
    ),
)

STAND_IN = "fmnist-dir0.1"
STAND_IN_NAME = "Fashion-MNIST (stand-in)"
SMOKE = (
    "At the smoke scale both tasks are the embedded digits, so columns with the same α are the same"
    " cells, run once."
)
DESK = (
    "Fashion-MNIST stands in for the organ images on machines that do not have them; its images are"
    " grey and of the same size. There are 70,000 of them, and 58,850 (Axial) and 25,221 (Sagittal)"
    " organ images. The paper prints nothing for it."
)


def columns(evidence: Evidence) -> tuple[Column, ...]:
    """The paper's six columns, and the stand-in where it is planned."""
    six = tuple(each.column for each in SETTINGS)
    stand_in = Column(STAND_IN, "α = 0.1", STAND_IN_NAME)
    return (*six, stand_in) if planned(evidence, STAND_IN) else six


def planned(evidence: Evidence, column: str) -> bool:
    """Whether any cell of a column is planned."""
    return bool((evidence.cells["column"] == column).any())


def scale_note(evidence: Evidence) -> tuple[str, ...]:
    """Return what a reader must know about the data of a scale."""
    stand_in = (DESK,) if planned(evidence, STAND_IN) else ()
    return (*stand_in, *forms.at_scale(evidence, smoke=SMOKE))


def in_percent(evidence: Evidence) -> Changed:
    """Evidence whose published fractions are percentages, like our accuracies."""
    published = evidence.published.copy()
    fractions = published["unit"] == "fraction"
    published.loc[fractions, "value"] = (100 * published.loc[fractions, "value"]).round(4)
    return Changed(evidence, published=published)
