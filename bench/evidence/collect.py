"""From a store to published results.

Nobody keeps a list of what tables and figures need: they are made once from the store, and the
curves and diagnostics that they read are published, beside the curve and the counts that each value
was taken from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.evidence import artefacts
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.evidence.committed.committed_run import Curve, Line, line_of
from repfl.bench.evidence.committed.committed_runs import Measured
from repfl.bench.evidence.library import Library
from repfl.bench.grid.cell import canonical
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.store import provenance
from repfl.bench.store.store import Record, Store, writing
from repfl.paper_tables.core.evidence import Arrays, Reduce


@dataclass
class Collected:
    """What was written, and what could not be."""

    files: list[tuple[Path, int, int]] = field(default_factory=list)
    """Files, how many of their lines are new or improved, and how many were there already."""
    conflicts: list[str] = field(default_factory=list)
    beside: Counter[str] = field(default_factory=Counter)
    """By method, records of the same recipes that are of no planned cell: they are left out too."""


class Noting(Library):
    """A library that keeps a copy of everything that is read in it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.read_curves: dict[str, set[str]] = {}
        self.read_arrays: dict[str, dict[str, Arrays]] = {}

    def curves(self, record: Record, names: Sequence[str]) -> dict[str, Curve]:
        found = super().curves(record, names)
        self.read_curves.setdefault(record.id, set()).update(found)
        return found

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        found = super().arrays(record, reduce)
        if found:
            self.read_arrays.setdefault(record.id, {})[reduce.__name__] = found
        return found


def collect(
    planned: Sequence[Planned], store: Store, root: Path | None = None, contributor: str = ""
) -> Collected:
    """Publish the finished cells of every paper.

    Lines of other platforms and contributors stay, and so do those of cells that are not finished
    here, unless they are of an older version of a method that is.
    """
    for paper in sorted({item.paper for item in planned}):
        provenance.must_last(committed_runs.folder_of(paper, root))
    library, done = Noting(store), Collected(beside=_beside(planned, store))
    artefacts.make(planned, library, root)
    name = contributor or committed_runs.contributor()
    for paper, scale in sorted({(item.paper, item.scale) for item in planned}):
        known = committed_runs.read(paper, scale, root)
        if known.problems:
            raise Corrupt(
                f"{known.problems[0]}; mend or remove the file, or its other lines would be lost"
            )
        before = {line.json["checksum"] for line in known.lines}
        own = unique(item for item in planned if item.paper == paper)
        today = {
            item.cell.method: item.cell.version
            for item in own
            if _add(known, item, library, name, done)
        }
        for line in known.lines:
            if line.record.cell["version"] < today.get(line.method, 0):
                known.forget(line)
        after = {line.json["checksum"] for line in known.lines}
        if after != before:
            with writing(known.file.parent, "folder", ""):
                committed_runs.write(known)
        if after:
            done.files.append((known.file, len(after - before), len(after & before)))
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
    """Add one finished cell, and what was read of it; return whether it is finished."""
    record = library.record(item.cell.id)
    if record is None or record.status not in ("done", "diverged"):
        return False
    named = replace(record, provenance={**record.provenance, "contributor": contributor})
    line = Line(named, item.column)
    before = next((each for each in known.cells.get(line.cell, ()) if each.key == line.key), None)
    if before is not None and before.digests != line.digests:
        if _settled(before.record, named):
            done.conflicts.append(_conflict(before.record, named))
            return True
        before = None
    read = library.read_curves.get(line.cell, set()) | set(before.curves if before else ())
    line = line_of(named, library.store, item.column, read)
    arrays: Mapping[str, Arrays] = library.read_arrays.get(line.cell, {})
    if before is not None:
        arrays = {**before.arrays, **arrays}
        line = line if _improves(before, line) else replace(before, curves=line.curves)
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
    """Return whether the same versions, committed, gave both in the same way."""
    then, now = before.provenance, record.provenance
    alike = all(then[name] == now.get(name) for name in ("versions", "chunk"))
    return alike and not then.get("dirty") and not now.get("dirty")


def _improves(before: Line, line: Line) -> bool:
    """Return whether a line says more than one with the same digests."""
    then, now = before.record.provenance, line.record.provenance
    cleaner = bool(then.get("dirty")) and not now.get("dirty")
    return cleaner or (before.counts is None and line.counts is not None)
