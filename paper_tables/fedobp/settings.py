"""The eight data sets of the paper, its thirteen methods, and what its artefacts share."""

from __future__ import annotations

from pathlib import Path

from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.statistics.verdict import Printing

PAPER = "fedobp"
FOLDER = Path(__file__).parent
OURS = "FedOBP"
SETTINGS = printed_recipes(PAPER)
SHORTS = {each.key.partition("-dir")[0]: each for each in SETTINGS}
DATASETS = {short: each.column.group for short, each in SHORTS.items()}
"""Titles of the data sets by their short names."""
PRINTED = {short: each.place.dataset for short, each in SHORTS.items()}
"""The paper's names of the data sets."""
ALPHAS = tuple(dict.fromkeys(each.key.rpartition("-dir")[2] for each in SETTINGS))
SWEPT = ("cifar10", "cifar100", "mnist", "fmnist", "organa", "organc")
"""The data sets of figures 4 and 7."""
ORGANS = ("organa", "organc")


def key(short: str, alpha: str = "0.1", tail: str = "") -> str:
    """The recipe of a data set at a level of heterogeneity."""
    return f"{short}-dir{alpha}{tail}"


def columns(shorts: tuple[str, ...]) -> tuple[Column, ...]:
    """Two columns per data set."""
    return tuple(
        Column(key(short, alpha), f"Dir({alpha})", DATASETS[short])
        for short in shorts
        for alpha in ALPHAS
    )


TABLE3 = ("cifar10", "cifar100", "emnist", "svhn")
TABLE4 = ("mnist", "fmnist", *ORGANS)
PLACES = {each.key: each.place for each in SETTINGS}

PRINTING = Printing(rule="max")
"""Tables III and IV: the best of the evaluations at rounds 100 to 400, which the code prints
(README, 2). The text says four independent runs (section V-A). Of the cells with a log, 74 of 118
have it √3 printed deviations from the printed mean, as one run beside three equal ones does, so
means count as one run and the ± enters no verdict.
"""
SINGLE, LOGGED_ROUND = (Printing(rule=rule) for rule in ("max", "last"))
"""Table V and figure 4 equal logs of single runs; the calibration logs are read at a round."""

LOCAL, GLOBAL = "Local-Only", "FedAvg"
BASELINES = (
    LOCAL, GLOBAL, "FedPer", "APFL", "LG-FedAvg", "FedRep", "pFedFDA", "FLUTE", "FedDPA", "FLOCO",
    "FedALA", "FedSelect",
)  # fmt: skip
METHODS = (*BASELINES, OURS)
DRAWN = (*BASELINES[:-1], OURS)
"""The methods of figures 2 and 3: FedSelect is in the tables only."""
SAME_DATA = (
    "At the smoke scale all data sets are the embedded digits, so columns and panels with the same"
    " setting are the same cells, run once."
)
