"""The nine settings of the paper and what its artefacts share."""

from __future__ import annotations

from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Row

PAPER = "fedpurin"
OURS = "FedPURIN"
SETTINGS = printed_recipes(PAPER)
COLUMNS = tuple(each.column for each in SETTINGS)
PLACES = {each.key: each.place for each in SETTINGS}
KEYS: dict[tuple[str, str], str] = {}
"""The recipe of a data set and an alpha."""
DATASETS: dict[str, str] = {}
ALPHAS: dict[str, tuple[str, ...]] = {}
for _each in SETTINGS:
    _short, _, _alpha = _each.key.partition("-dir")
    KEYS[_short, _alpha] = _each.key
    DATASETS[_short] = _each.place.dataset
    ALPHAS[_short] = (*ALPHAS.get(_short, ()), _alpha)
PRINTING = Printing(runs=3, deviation=True, rule="max")
"""Three seeds, each with a partition of its own, and their standard deviation (Table 1's caption);
the best round of the run on the test images.
"""
CIFAR10 = tuple(KEYS["cifar10", alpha] for alpha in ALPHAS["cifar10"])
CIFAR100 = tuple(KEYS["cifar100", alpha] for alpha in ALPHAS["cifar100"])

METHODS = ("Separate", "FedAvg", "FedPer", "FedBN", "pFedSD", "FedCAC", OURS)
LONG = {key: f"{key}-60" for key in CIFAR10[1:]}
"""At the desk scale: the recipes that run on, by the column that they stand in."""
LONGER = ("Separate", "FedAvg", "pFedSD", "FedCAC", OURS)
TABLE1_ROWS = (
    *(Row(name) for name in METHODS),
    Row(
        "FedPer, 40 clients",
        published="",
        recipes={key: f"{key}-n40" for key in CIFAR100},
        only=CIFAR100,
        aside=True,
    ),
    Row("FedPURIN, dense model", published="", source=OURS, point="dense", aside=True),
    Row("FedPURIN, after aggregation", published="", source=OURS, point="post_agg", aside=True),
    *(
        Row(f"{name}, 60 rounds", published="", recipes=LONG, only=tuple(LONG), aside=True)
        for name in LONGER
    ),
    Row(
        "FedPURIN, after aggregation, 60 rounds",
        published="",
        source=f"{OURS}, 60 rounds",
        point="post_agg",
        recipes=LONG,
        aside=True,
    ),
)
TABLE2_ROWS = (
    Row("Δθ, H off", published="FedPURIN[g=delta_theta,H=off]"),
    Row("exact g, H off", published="FedPURIN[g=exact,H=off]"),
    Row("Δθ, H on", published="FedPURIN[g=delta_theta,H=on]"),
    Row("exact g, H on", published="FedPURIN[g=exact,H=on]"),
    Row("exact g, zero tensors kept (code)", published="", only=CIFAR10, aside=True),
    Row("exact g in float32", published="", only=CIFAR10, aside=True),
    Row("exact g, own rest (isLocal)", published="", only=CIFAR10, aside=True),
)
BN_ROWS = ("w/o BN", "w/ BN (masked)", "w/ BN (in full)")
TAUS = ("0.2", "0.3", "0.4", "0.5", "0.6")
TAU_ROWS = tuple(f"τ = {tau}" for tau in TAUS)
SAME_DATA = (
    "At the smoke scale all three data sets are the embedded digits, so columns with the same α are"
    " the same cells, run once."
)
