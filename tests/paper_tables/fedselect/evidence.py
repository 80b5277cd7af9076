"""Invented evidence for FedSelect: masks of the right size, and traffic that follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from repfl.bench.cells.plan import Planned
from repfl.bench.evidence.library import Known, StoredEvidence
from repfl.bench.evidence.measured import Measured
from repfl.bench.records.store import Record
from repfl.paper_tables.core.result import Claim, Result, Table
from repfl.paper_tables.fedselect.artefacts import ARTEFACTS
from tests.paper_tables.planned import Invented, Plans, planned

PAPER = "fedselect"
SIZE = 4000
CLASSES = ((0, 1), (0, 1), (2, 3), (2, 3), (4, 5), (4, 5), (6, 7), (6, 7), (8, 9), (8, 9))
"""Two clients of every pair, so who is alike is known."""


def share(item: Planned) -> float:
    """The personal share that a run ends with."""
    if item.cell.method != "fedselect" or item.cell.hp["select"] == "layer":
        return 0.0
    return (
        max(0.25, float(item.cell.hp["limit"]))
        if item.cell.hp["mode"] == "code"
        else float(item.cell.hp["limit"])
    )


def curves(item: Planned, round_: int) -> dict[str, float]:
    """Notes and bytes of a round."""
    kept = share(item) if round_ > 2 else 0.0
    return {
        "note/personal": kept,
        "traffic/up_values": 4 * SIZE * (1 - kept),
        "traffic/up_codes": SIZE / 8,
    }


class Library(Invented):
    """Adds the notes and masks of FedSelect's runs."""

    def record(self, cell: str) -> Record | None:
        found = super().record(cell)
        if found is None or found.status != "done":
            return found
        return replace(
            found, metrics={**found.metrics, "notes": {"personal": share(self.items[cell])}}
        )

    def diagnostics(self, record: Record) -> dict[str, np.ndarray]:
        item = self.items[record.id]
        if "mask" not in item.cell.recipe["evaluation"]["tallies"]:
            return {}
        counts = np.zeros((10, 10), dtype=np.int64)
        mask = np.zeros((10, SIZE + 10), dtype=np.uint16)
        for client, classes in enumerate(CLASSES):
            counts[client, list(classes)] = 5
            start, length = client // 2 * 100, int(share(item) * SIZE)
            mask[client, (start + np.arange(length)) % SIZE] = 3
        mask[:, SIZE:] = 9
        layout = {
            "names": np.array(["fc.weight", "bn.mean"]),
            "starts": np.array([0, SIZE]),
            "stops": np.array([SIZE, SIZE + 10]),
        }
        return {
            "mask": mask[::-1],
            "class_counts": counts[::-1],
            **{f"layout/{name}": values for name, values in layout.items()},
        }


PLANS = Plans(PAPER, curves)


def evidence(
    name: str, scale: str = "smoke", fails: Callable[[Planned], bool] = lambda item: False
) -> Any:
    """The evidence of one artefact; some of its cells have failed."""
    items = [item for item in planned(PAPER, scale) if item.artefact == name]
    library = Library(items, curves)
    library.fate = {item.cell.id: ("failed", "out of memory") for item in items if fails(item)}
    return StoredEvidence(items, Known(library, Measured()), PLANS.published)


@cache
def make(name: str, scale: str = "smoke") -> Result:
    """An artefact from invented evidence."""
    return ARTEFACTS[name](evidence(name, scale))


def table(name: str, scale: str = "smoke") -> Table:
    found = make(name, scale)
    assert isinstance(found, Table)
    return found


def claims(name: str, scale: str = "smoke") -> dict[str, Claim]:
    """Claims by their text."""
    return {c.text: c for c in make(name, scale).claims}
