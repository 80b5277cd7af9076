"""Evidence without runs: the cells that the harness really plans for a paper, with invented but
fixed results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, cast

import numpy as np
import pandas as pd

from repfl.bench.cells.grid import files, read
from repfl.bench.cells.plan import Planned, cells_of
from repfl.bench.evidence import library as harness
from repfl.bench.evidence.measured import Measured
from repfl.bench.records.store import Record
from repfl.paper_tables.core.evidence import Arrays, Evidence, Reduce
from repfl.paper_tables.core.published import load

SHOWN_ROUNDS = 24
"""Curves are cut here, to keep tests fast."""
Curves = Callable[[Planned, int], dict[str, float]]
"""What a paper's runs note in a round beyond accuracies and bytes."""


def number(*key: object) -> float:
    """A fixed number in [0, 1) for a key."""
    return int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16) / 16**12


@cache
def planned(paper: str, scale: str) -> tuple[Planned, ...]:
    """Every cell of a paper at a scale, built and validated."""
    grid = read(files()[paper])
    return tuple(
        item
        for name, artefact in grid.file.artefacts.items()
        for item in cells_of(grid, name, artefact, scale)
    )


def accuracy(item: Planned) -> float:
    """An invented final accuracy."""
    return 0.6 + 0.3 * number(item.cell.method, item.column) + 0.02 * number(item.cell.id)


def metrics(item: Planned) -> dict[str, Any]:
    """What a record of the cell would summarise."""
    value, points = accuracy(item), {}
    for point in (*item.cell.recipe["evaluation"]["points"], "gossiped"):
        own = value - 0.01 * number(point)
        last = {"mean": own - 0.01, "pooled": own - 0.01, "std": 0.1, "decile": own - 0.2}
        best, chosen = (
            {"mean": own, "pooled": own, "round": 5},
            {"mean": own - 0.02, "pooled": own, "round": 4},
        )
        points[point] = {"last": last, "max": best, "best_val": chosen}
    return {
        "value": value,
        "round": 5,
        "points": points,
        "floor": {"clients": 0.3, "pooled": 0.3},
        "parameters": 1000,
    }


class Invented(harness.Library):
    """A library in which every planned cell is done, unless told otherwise. It is its own store."""

    def __init__(self, items: Sequence[Planned], curves: Curves) -> None:
        self.items = {item.cell.id: item for item in items}
        super().__init__(cast(Any, self))
        self.noted, self.fate = curves, dict[str, tuple[str, str]]()

    def record(self, cell: str) -> Record | None:
        status, reason = self.fate.get(cell, ("done", ""))
        return Record(
            cell,
            self.items[cell].cell.json,
            status,
            reason,
            metrics(self.items[cell]) if status == "done" else {},
        )

    def frame(self, record: Record, name: str) -> pd.DataFrame:
        """Rising accuracies, and what the paper's runs note."""
        item, rows = self.items[record.id], []
        last = min(SHOWN_ROUNDS, item.cell.rounds)
        for round_ in range(1, last + 1):
            rise = accuracy(item) * (1 - 0.5 * (1 - round_ / last) ** 2)
            points = {f"{point}/mean": rise for point in item.cell.recipe["evaluation"]["points"]}
            rows += [
                (round_, key, value) for key, value in (points | self.noted(item, round_)).items()
            ]
        return pd.DataFrame(rows, columns=["round", "name", "value"])

    def diagnostics(self, record: Record) -> dict[str, np.ndarray]:
        """What a run leaves beside its curves."""
        return {}

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        return reduce(self.diagnostics(record))


class Plans:
    """One paper's invented evidence."""

    def __init__(self, paper: str, curves: Curves) -> None:
        self.paper, self.curves = paper, curves
        self.published = load(files()[paper].parent / "published")

    def evidence(
        self,
        artefact: str,
        scale: str = "smoke",
        fails: Callable[[Planned], bool] = lambda item: False,
    ) -> Evidence:
        """The evidence of one artefact; some of its cells have failed."""
        items = [item for item in planned(self.paper, scale) if item.artefact == artefact]
        library = Invented(items, self.curves)
        library.fate = {item.cell.id: ("failed", "out of memory") for item in items if fails(item)}
        return cast(
            Evidence,
            harness.StoredEvidence(items, harness.Known(library, Measured()), self.published),
        )
