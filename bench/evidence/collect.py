"""From a store to the measured values that travel with the code.

Nobody keeps a list of what artefacts need: they are made once from the store, and what they read of
curves and diagnostics is kept, beside the curve and the counts that each value was taken from.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.evidence import artefacts, measured
from repfl.bench.evidence.library import Library
from repfl.bench.evidence.lines import Line, line_of
from repfl.bench.evidence.measured import Measured
from repfl.bench.evidence.packing import Curve
from repfl.bench.grid.cell import canonical
from repfl.bench.grid.plan import Planned, unique
from repfl.bench.store import provenance
from repfl.bench.store.store import Record, Store, writing
from repfl.paper_tables.core.evidence import Arrays, Reduce


@dataclass
class Collected:
    """What was written, and what could not be."""

    files: list[tuple[Path, int, int]] = field(default_factory=list)
    """Files, how many of their lines are new or improved, and how many were there already."""
    conflicts: list[str] = field(default_factory=list)
    half: int = 0
    """Records of half precision, which are left out."""
    beside: Counter[str] = field(default_factory=Counter)
    """By method, records of the same recipes that are of no planned cell: they are left out too."""


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


def collect(
    planned: Sequence[Planned], store: Store, root: Path | None = None, contributor: str = ""
) -> Collected:
    """Write the finished cells of every paper.

    Lines of other platforms and contributors stay, and so do those of cells that are not finished
    here, unless they are of an older version of a method that is.
    """
    for paper in sorted({item.paper for item in planned}):
        provenance.must_last(measured.folder_of(paper, root))
    library, done = Noting(store), Collected(beside=_beside(planned, store))
    artefacts.make(planned, library, root)
    name = contributor or measured.contributor()
    for paper, scale in sorted({(item.paper, item.scale) for item in planned}):
        known = measured.read(paper, scale, root)
        if known.problems:
            raise Corrupt(
                f"{known.problems[0]}; mend or remove the file, or its other lines would be lost"
            )
        had = {line.checksum for line in known.lines}
        own = unique(item for item in planned if item.paper == paper)
        today = {
            item.cell.method: item.cell.version
            for item in own
            if _add(known, item, library, name, done)
        }
        for line in known.lines:
            if int(line.axes["version"]) < today.get(line.axes["method"], 0):
                known.forget(line)
        if known.cells:
            now = {line.checksum for line in known.lines}
            if now != had:  # else a field that came later would show as a change of every line
                with writing(known.folder, "folder", ""):
                    measured.write(known)
            done.files.append((known.file, len(now - had), len(now & had)))
    return done


def _beside(planned: Sequence[Planned], store: Store) -> Counter[str]:
    """By method that has no row, its records of recipes that others are planned at."""
    rows = {item.cell.method for item in planned}
    recipes = {canonical(item.cell.recipe) for item in planned}
    found: Counter[str] = Counter()
    for cell in {*store.ids()} - {item.cell.id for item in planned}:
        try:
            record = store.get(cell)
        except (Corrupt, UserError):
            continue  # `repfl verify` tells of it
        if record and record.cell["method"] not in rows:
            found[record.cell["method"]] += canonical(record.cell["recipe"]) in recipes
    return +found


def _add(
    known: Measured, item: Planned, library: Noting, contributor: str, done: Collected
) -> bool:
    """One finished cell, and what was read of it; whether it is finished."""
    record = library.record(item.cell.id)
    if record is None or record.status not in ("done", "diverged"):
        return False
    if provenance.half(record.provenance):
        done.half += 1
        return False
    named = replace(record, provenance={**record.provenance, "contributor": contributor})
    before = known.cells.get(record.id, {}).get(Line(named, {}).key)
    if before is not None and before.digests != (named.provenance.get("digests") or {}):
        if _settled(before.record, named):
            done.conflicts.append(_conflict(before.record, named))
            return True
        before = None
    read = library.read_curves.get(record.id, {}).keys() | (
        before.drawn.keys() if before else set()
    )
    line = line_of(named, _axes(item), library.store, read)
    arrays = _write_arrays(known, line, library.read_arrays.get(record.id, {}))
    if before is not None:
        arrays = {**before.arrays, **arrays}
        line = line if _improves(before, line) else replace(before, drawn=line.drawn)
    known.add(replace(line, arrays=arrays))
    return True


def _conflict(before: Record, now: Record) -> str:
    made, values = (
        before.provenance["finished"],
        (before.metrics.get("value"), now.metrics.get("value")),
    )
    told = f"value {values[0]} in the line of {made}, {values[1]} now"
    return f"cell {now.id[:12]} came out otherwise from the same versions: {told}; not taken"


def _settled(before: Record, record: Record) -> bool:
    """Whether the same versions, committed, gave both in the same way."""
    then, now = before.provenance, record.provenance
    alike = all(then[name] == now.get(name) for name in ("versions", "chunk"))
    return alike and not then.get("dirty") and not now.get("dirty")


def _improves(before: Line, line: Line) -> bool:
    """Whether a line says more than one with the same digests."""
    then, now = before.record.provenance, line.record.provenance
    cleaner = bool(then.get("dirty")) and not now.get("dirty")
    return cleaner or (not before.counted and bool(line.counted))


def _write_arrays(known: Measured, line: Line, read: Mapping[str, Arrays]) -> dict[str, str]:
    """Keep the diagnostics that artefacts read of a line; the checksums of their files."""
    files = {reduction: _compressed(arrays) for reduction, arrays in read.items() if arrays}
    for reduction, data in files.items():
        place = known.place_of(line, reduction)
        with writing(known.folder, "folder", ""):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
    return {reduction: sha256(data).hexdigest() for reduction, data in files.items()}


def _compressed(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)  # type: ignore[arg-type]
    return buffer.getvalue()


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
