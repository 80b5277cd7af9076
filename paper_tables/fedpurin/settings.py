"""The nine settings of the paper and what its artefacts share."""

from __future__ import annotations

from pathlib import Path

from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Row

PAPER = "fedpurin"
FOLDER = Path(__file__).parent
OURS = "FedPURIN"
SETTINGS = printed_recipes(PAPER)
COLUMNS = tuple(each.column for each in SETTINGS)
PLACES = {each.key: each.place for each in SETTINGS}
KEYS = {tuple(each.key.split("-dir")): each.key for each in SETTINGS}
"""The recipe of a data set and an alpha."""
DATASETS = {short: PLACES[recipe].dataset for (short, _), recipe in KEYS.items()}
ALPHAS = {short: tuple(alpha for s, alpha in KEYS if s == short) for short in DATASETS}
PRINTING = Printing(runs=3, deviation=True, rule="max")
"""Three seeds, each with a partition of its own, and their standard deviation (Table 1's caption);
the best round of the run on the test images.
"""
CIFAR10 = tuple(KEYS["cifar10", alpha] for alpha in ALPHAS["cifar10"])

METHODS = ("Separate", "FedAvg", "FedPer", "FedBN", "pFedSD", "FedCAC", OURS)
TABLE1_ROWS = (
    *(Row(name) for name in METHODS),
    Row("Separate, 20 rounds", published="", aside=True),
    Row("FedPURIN, dense model", published="", source=OURS, point="dense", aside=True),
    Row("FedPURIN, 60 rounds", published="", aside=True),
    *(
        Row(
            f"FedPURIN, after aggregation{more}",
            published="",
            source=f"{OURS}{more}",
            point="post_agg",
            aside=True,
        )
        for more in ("", ", 60 rounds")
    ),
)
TABLE2_ROWS = tuple(
    Row(f"{gradient}, H {hessian}", published=f"FedPURIN[g={name},H={hessian}]")
    for hessian in ("off", "on")
    for gradient, name in (("Δθ", "delta_theta"), ("exact g", "exact"))
)
BN_ROWS = ("w/o BN", "w/ BN (masked)", "w/ BN (in full)")
TAUS = ("0.2", "0.3", "0.4", "0.5", "0.6")
TAU_ROWS = tuple(f"τ = {tau}" for tau in TAUS)
SAME_DATA = (
    "At the smoke scale all three data sets are the embedded digits, so columns with the same α are"
    " the same cells, run once."
)
