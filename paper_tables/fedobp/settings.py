"""The eight data sets of the paper, its thirteen methods, and what its artefacts share."""

from __future__ import annotations

from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Row

PAPER = "fedobp"
OURS = "FedOBP"
SETTINGS = printed_recipes(PAPER)
DATASETS: dict[str, str] = {}
"""Titles of the data sets by their short names."""
PRINTED: dict[str, str] = {}
"""The paper's names of the data sets."""
ALPHAS: tuple[str, ...] = ()
for _each in SETTINGS:
    _short, _, _alpha = _each.key.partition("-dir")
    DATASETS[_short], PRINTED[_short] = _each.column.group, _each.place.dataset
    ALPHAS = (*ALPHAS, *({_alpha} - {*ALPHAS}))
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
    LOCAL,
    GLOBAL,
    "FedPer",
    "APFL",
    "LG-FedAvg",
    "FedRep",
    "pFedFDA",
    "FLUTE",
    "FedDPA",
    "FLOCO",
    "FedALA",
    "FedSelect",
)
METHODS = (*BASELINES, OURS)
DRAWN = (*BASELINES[:-1], OURS)
"""The methods of figures 2 and 3: FedSelect is in the tables only."""
REPAIRED = ("APFL", "LG-FedAvg", "pFedFDA", "FLUTE", "FedDPA", "FedALA")
"""The baselines that the benchmark behind the paper computes otherwise than their own papers do."""
CORRECTED = (LOCAL, GLOBAL, "FedPer", "pFedFDA", OURS)
"""The methods that also run on organ images with the right normalisation."""
ORGAN_KEYS = {
    key(short, alpha): key(short, alpha, "-corrected") for short in ORGANS for alpha in ALPHAS
}

DEFINED = tuple(Row(f"{name}, as defined", published="", aside=True) for name in REPAIRED)
TABLE3_ROWS = (
    *(Row(name) for name in METHODS),
    *DEFINED,
    Row("FedOBP, first visit global", published="", only=(key("cifar10"),), aside=True),
)
TABLE4_ROWS = (
    *(Row(name) for name in METHODS),
    *DEFINED,
    *(
        Row(
            f"{name}, corrected inputs",
            published="",
            recipes=ORGAN_KEYS,
            only=tuple(ORGAN_KEYS),
            aside=True,
        )
        for name in CORRECTED
    ),
)
LOGGED = (LOCAL, GLOBAL, "FedPer", "APFL", "LG-FedAvg", "FedRep", "pFedFDA", "FLUTE", "FLOCO", OURS)
"""The methods whose logs give an accuracy at round 400 on CIFAR-10, Dir(0.1)."""
LOG_RECIPE = {key("cifar10"): key("cifar10", "0.1", "-m0.7-last")}
LOG_ROWS = tuple(
    Row(
        f"{name}, momentum 0.7",
        published=name,
        recipes=LOG_RECIPE,
        only=tuple(LOG_RECIPE),
        aside=True,
    )
    for name in LOGGED
)
UNLOGGED = ("FedALA", "FedSelect")
SHORT_LOG_RECIPES = {
    column: "calibration-m0.7" if column == key("cifar10") else f"calibration-m0.7-{column}"
    for column in PLACES
}
SHORT_LOG_ROWS = tuple(
    Row(f"{name}, momentum 0.7, 100 rounds", name, recipes=SHORT_LOG_RECIPES, aside=True)
    for name in METHODS
    if name not in UNLOGGED
)
"""The whole protocol up to the first evaluation, against what the logs have there."""
SHORT_ROWS = tuple(
    Row(
        f"{name}, 100 rounds",
        published="",
        recipes={key("cifar10"): "calibration-m0"},
        only=(key("cifar10"),),
        aside=True,
    )
    for name in (LOCAL, GLOBAL)
)
"""The same without momentum."""

SAME_DATA = (
    "At the smoke scale all data sets are the embedded digits, so columns and panels with the same"
    " setting are the same cells, run once."
)
ONE_PARTITION = (
    "All runs share one partition (seed 42, the published code's own stream); seeds change the"
    " initial model, the batches and who takes part. README, 22."
)
