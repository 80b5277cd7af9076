"""Invented evidence for FedOBP: true model sizes, masks of the right size, and traffic that follows
from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import ceil

import numpy as np
import pandas as pd

from repfl.paper_tables.core.result import Result, Table
from repfl.paper_tables.fedobp.artefacts import ARTEFACTS
from tests.paper_tables.fakes import FakeEvidence

PAPER = "fedobp"
SHAPES = {
    "cifar10": (3, 32, 10),
    "svhn": (3, 32, 10),
    "cifar100": (3, 32, 100),
    "mnist": (1, 28, 10),
    "fashion_mnist": (1, 28, 10),
    "emnist_byclass": (1, 28, 62),
    "organamnist": (1, 28, 11),
    "organcmnist": (1, 28, 11),
}
TINY = 2746
LAYERS = (("conv1", 0.3), ("conv2", 0.05), ("fc1", 0.05), ("classifier", 0.6))


def size(cell: pd.Series) -> int:
    """Parameters of the model that a cell trains."""
    if cell["recipe.model"] == "tiny":
        return TINY
    shape = cell.get("recipe.input")
    channels, side, classes = (
        (shape[0], shape[1], int(cell["recipe.classes"]))
        if isinstance(shape, tuple)
        else SHAPES[cell["dataset"]]
    )
    last = ((side - 4) // 2 - 4) // 2
    return (
        25 * 32 * channels + 32 + 25 * 32 * 64 + 64 + (64 * last * last + 1) * 512 + 513 * classes
    )


class FedObpEvidence(FakeEvidence):
    """What FedOBP's artefacts read beyond accuracies."""

    def __init__(self, artefact: str, scale: str = "smoke") -> None:
        super().__init__(PAPER, artefact, scale)
        cells = self.cells
        cells["parameters"] = [size(cell) for _, cell in cells.iterrows()]
        quantiles = cells["hp.q"] if "hp.q" in cells else pd.Series(1.0, index=cells.index)
        cells["personal"] = [
            ceil(n * (1 - q) - 1e-6) if q == q else 0
            for n, q in zip(cells["parameters"], quantiles, strict=True)
        ]
        people = (cells["recipe.clients"] * cells["recipe.participation"]).round() * cells[
            "recipe.training.rounds"
        ]
        cells["traffic.up_values"] = 4 * cells["parameters"] * people
        cells["traffic.down_values"] = 4 * (cells["parameters"] - cells["personal"]) * people
        cells["traffic.down_codes"] = (
            np.minimum(cells["parameters"] // 8, 4 * cells["personal"]) * people
        )
        cells["traffic.up_codes"] = 0
        cells["metrics"] = [
            {**m, "notes": {"personal": float(p)}}
            for m, p in zip(cells["metrics"], cells["personal"], strict=True)
        ]

    def rounds(self, ids: Sequence[str], *names: str) -> pd.DataFrame:
        """Rising curves of cohort and everybody, and the layers of personal entries."""
        rows: list[tuple[str, int, str, float]] = []
        for _, cell in self.cells[self.cells["id"].isin(set(ids))].drop_duplicates("id").iterrows():
            for round_ in range(1, min(30, int(cell["recipe.training.rounds"])) + 1):
                rise = cell["value"] * (1 - 0.5 / round_) if cell["value"] == cell["value"] else 0.5
                rows += [
                    (cell["id"], round_, point, rise)
                    for point in ("start/pooled", "post_agg/pooled")
                ]
                total = float(cell["personal"]) if round_ > 1 else 0.0
                rows.append((cell["id"], round_, "note/personal", total))
                rows += [
                    (cell["id"], round_, f"note/personal/{layer}", total * share)
                    for layer, share in LAYERS
                ]
        return self.named(rows, names)


@cache
def _whole(name: str, scale: str) -> Result:
    return ARTEFACTS[name](FedObpEvidence(name, scale))


def make(name: str, scale: str = "smoke", **change: object) -> Result:
    """An artefact, with some cells not done where asked."""
    if not change:
        return _whole(name, scale)
    return ARTEFACTS[name](FedObpEvidence(name, scale).change("failed", "out of memory", **change))


def table(name: str, scale: str = "smoke", **change: object) -> Table:
    found = make(name, scale, **change)
    assert isinstance(found, Table)
    return found
