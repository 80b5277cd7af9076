"""The two data sets of the paper, its seven methods, and what its artefacts share."""

from __future__ import annotations

from pathlib import Path

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Row

PAPER = "pfeddst"
FOLDER = Path(__file__).parent
OURS = "PFedDST"
RIVAL = "DFedPGP"
PRINTING = Printing()
"""The paper tells neither its runs nor its rule."""
DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100"}
TARGETS = {"cifar10": (70, 80, 85, 90), "cifar100": (50, 60, 70, 75)}
"""Accuracies whose first round table2 shows; ours, since the paper's table is lost."""
CENTRALISED = ("FedAvg", "FedPer", "FedBABU")
DECENTRALISED = ("DFedAvgM", "Dis-PFL", RIVAL, OURS)
METHODS = (*CENTRALISED, *DECENTRALISED)

ROWS = (
    *(Row(name) for name in METHODS),
    *(
        Row(f"{name}, mixed models", published="", source=name, point="gossiped", aside=True)
        for name in DECENTRALISED[:3]
    ),
)

SAME_DATA = (
    "At the smoke scale both data sets are the embedded digits, with two and five of ten classes"
    " per client; levels are easier to reach there."
)
DESK = (
    "At the desk scale the model is a 4-layer CNN: ResNet-18 with group norm is beyond a"
    " processor's afternoon."
)


def scale_note(evidence: Evidence) -> tuple[str, ...]:
    """Return what a reader must know about a scale."""
    return forms.at_scale(evidence, smoke=SAME_DATA, desk=DESK)
