"""The four data sets of the paper, its ten methods, and what its artefacts share."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from pathlib import Path

import pandas as pd

from repfl.paper_tables.core import tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.printed_recipes import printed_recipes
from repfl.paper_tables.core.statistics.verdict import Printing, Verdict
from repfl.paper_tables.core.tables import Row

PAPER = "fedselect"
FOLDER = Path(__file__).parent
OURS = "FedSelect"
LOCAL = "Local Only"
CIFAR10, CIFAR10C, MINI, OFFICE = "cifar10", "cifar10c", "mini", "office"
SETTINGS = printed_recipes(PAPER)
DATASETS = {each.key: each.label for each in SETTINGS}
COLUMNS = tuple(each.column for each in SETTINGS)
PLACES = {each.key: each.place for each in SETTINGS}
PRINTING = Printing(rule="last")
"""Multiples of a 2,000th are the accuracy of one run of ten clients with 200 test images each
(README, 10).
"""
SUFFIXES = ("-single", "-twice", "-drawn")
"""Recipes that stand in the column of their data set: one global model with averaged BN statistics,
twice the epochs, and clients whose classes are drawn.
"""
ALPHAS = ("0.05", "0.30", "0.50", "0.80")
LIMITS = tuple(f"α = {alpha}" for alpha in ALPHAS)

METHODS = (
    LOCAL, "FedAvg", "FedAvg + FT", "Ditto", "FedPAC", "FedRep", "FedPer", "FedBABU", "LG-FedAvg",
    OURS,
)  # fmt: skip
BASELINES = METHODS[:-1]
ABLATIONS = ("Personalize Least", "Layer A", "Layer B", "Layer C", "Layer D", "Random")
TUNED = ("FedAvg + FT", "FedBABU")
"""Methods that are fine-tuned before they are scored, hence scored more rarely."""
UNTRAINED = "ours starts from random weights, the paper's from ImageNet's (README, 19)"
SAME_DATA = (
    "At the smoke scale all data sets are the embedded digits; CIFAR-10 and CIFAR10-C are the same"
    " cells there, run once."
)


def printed_table(evidence: Evidence, table: str, rows: Sequence[Row]) -> pd.DataFrame:
    """The long form of one of the three accuracy tables; OfficeHome's numbers are never judged, for
    want of pretrained weights.
    """
    frame = tables.accuracy_frame(evidence, table, rows, COLUMNS, PLACES, PRINTING)
    judged = (frame["column"] == OFFICE) & frame["verdict"].notna() & frame["ours"].map(isfinite)
    frame.loc[judged, ["verdict", "basis"]] = str(Verdict.OTHER_SCALE), UNTRAINED
    frame.loc[judged, ["difference", "difference_low", "difference_high"]] = nan
    frame.loc[judged & (frame["reason"] == ""), "reason"] = UNTRAINED
    return frame
