"""The two tasks of the paper, its six methods, and what its artefacts share."""

from __future__ import annotations

from pathlib import Path

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.evidence import Changed, Evidence
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Place, Row

PAPER = "star-pfl"
FOLDER = Path(__file__).parent
OURS = "Star-PFL"
LOCAL = "Local"
TASKS = {"axial": "Axial", "sagittal": "Sagittal"}
PRINTED = {"axial": "OrganMNIST_Axial", "sagittal": "OrganMNIST_Sagittal"}
"""The names of the tasks in the published csv."""
ALPHAS = ("0.01", "0.1", "1")
KEYS = {(task, alpha): f"{task}-dir{alpha}" for task in TASKS for alpha in ALPHAS}
PLACES = {key: Place(PRINTED[task], f"alpha={alpha}") for (task, alpha), key in KEYS.items()}
PRINTING = Printing(rule="max")
"""One run (seed 0) on the partition that the published code draws; no deviations (README, 12 and
19).
"""
CLIENTS = 20
HALF = 0.0005
"""How far three printed decimals round a number away."""

METHODS = (LOCAL, "FedAvg", "FedBN", "FedAP", "LotteryFL", OURS)
FEDERATED, BASELINES = METHODS[1:], METHODS[:-1]
VARIANTS = (
    "Star-PFL, Algorithm 1",
    "Star-PFL, as the code",
    "Star-PFL, README command (T = 0)",
    "Star-PFL, pixels / 255",
    "FedAvg, pixels / 255",
    "FedAP, λ = 0.3",
    "FedAP, pretrained on all data",
    "LotteryFL, as its code",
    "LotteryFL, target 0.1",
)
"""Rows with runs of their own."""
RESCALED = {KEYS[task, "0.1"]: f"{KEYS[task, '0.1']}-unit" for task in TASKS}
ROWS = (
    *(Row(name) for name in METHODS),
    *(
        Row(f"{name}, round by validation", published="", source=name, rule="best-val", aside=True)
        for name in METHODS
    ),
    *(
        Row(
            f"{name}, aggregated, round by validation",
            published="",
            source=name,
            point="post_agg",
            rule="best-val",
            aside=True,
        )
        for name in FEDERATED
    ),
    *(
        Row(name, published="", recipes=RESCALED if "255" in name else {}, aside=True)
        for name in VARIANTS
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
    " grey, of the same size, and as many. The paper prints nothing for it."
)


def columns(evidence: Evidence) -> tuple[Column, ...]:
    """The paper's six columns, and the stand-in where it is planned."""
    six = tuple(Column(key, f"α = {alpha}", TASKS[task]) for (task, alpha), key in KEYS.items())
    return (
        (*six, Column(STAND_IN, "α = 0.1", STAND_IN_NAME)) if planned(evidence, STAND_IN) else six
    )


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
