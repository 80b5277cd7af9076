"""From a store to the measured values that travel with the code.

Nobody keeps a list of what artefacts need: they are made once from the store, and what they read of curves and diagnostics is kept, beside
the curve that each value was taken from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.cells.plan import Planned, unique
from bench.errors import Corrupt
from bench.evidence import artefacts, measured
from bench.evidence.library import Library
from bench.evidence.measured import Curve, Measured
from bench.records.store import Record, Store, writing
from bench.running.metrics import judged
from paper_tables.core.evidence import Arrays, Reduce


class Noting(Library):
    """A library that keeps a copy of everything that is read in it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.read_curves: dict[str, dict[str, Curve]] = {}
        self.read_arrays: dict[str, dict[str, Arrays]] = {}

    def curves(self, record: Record, names: Sequence[str]) -> dict[str, Curve]:
        found = super().curves(record, names)
        self.read_curves.setdefault(record.id, {}).update(found)
        return found

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        found = super().arrays(record, reduce)
        self.read_arrays.setdefault(record.id, {})[reduce.__name__] = found
        return found


def collect(planned: Sequence[Planned], store: Store, root: Path | None = None) -> list[tuple[Path, int]]:
    """Write the finished cells of every paper.

    Cells measured earlier stay, unless they are finished here too, or are of an older version of a method that is.
    """
    library, written = Noting(store), []
    artefacts.make(planned, library, root)
    for paper, scale in sorted({(item.paper, item.scale) for item in planned}):
        known = measured.read(paper, scale, root)
        if known.problems:
            raise Corrupt(f"{known.problems[0]}; mend or remove the file, or its other lines would be lost")
        own = unique(item for item in planned if item.paper == paper)
        today = {item.cell.method: item.cell.version for item in own if _add(known, item, library)}
        for cell, axes in list(known.axes.items()):
            if int(axes["version"]) < today.get(axes["method"], 0):
                known.forget(cell)
        if known.records:
            with writing(known.folder):
                written.append((measured.write(known), len(known.records)))
    return written


def _add(known: Measured, item: Planned, library: Noting) -> bool:
    """One finished cell, and what was read of it; whether it is finished."""
    record = library.record(item.cell.id)
    if record is None or record.status not in ("done", "diverged"):
        return False
    before = known.records.get(record.id)
    if before is None or before.provenance.get("digests") != record.provenance.get("digests"):
        known.known_curves.pop(record.id, None)  # of another run
    known.records[record.id], known.axes[record.id] = record, _axes(item)
    library.curves(record, ["/".join(judged(item.cell.recipe["evaluation"]))])
    if read := library.read_curves.get(record.id):
        # in the order of the record, whatever was asked for first, so that the same record always gives the same lines
        kept = known.known_curves.get(record.id, {}) | read
        order = [*library.curves(record, list(kept)), *kept]
        known.known_curves[record.id] = {name: kept[name] for name in dict.fromkeys(order)}
    for reduction, arrays in library.read_arrays.get(record.id, {}).items():
        if arrays:
            path = known.place_of(record.id, reduction)
            with writing(known.folder):
                path.parent.mkdir(parents=True, exist_ok=True)
                np.savez_compressed(path, **arrays)  # type: ignore[arg-type]
    return True


def _axes(item: Planned) -> dict[str, Any]:
    cell, recipe = item.cell, item.cell.recipe
    return {
        "method": cell.method,
        "version": cell.version,
        "hp": cell.hp,
        "column": item.column,
        "dataset": recipe["dataset"],
        "model": recipe["model"],
        "clients": recipe["clients"],
        "rounds": cell.rounds,
        "seed": cell.seed,
    }
