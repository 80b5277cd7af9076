"""From a store to committed runs.

There is no list of what tables and figures need: they are made once from the store, and the curves
and diagnostics that they read are committed, beside the curve and the counts that each value was
taken from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.evidence import artefacts
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.evidence.committed import committed_runs
from repfl.bench.evidence.committed.committed_run import Curve, Line, line_of
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid.cell import canonical
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.store import provenance
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store, writing
from repfl.paper_tables.core.evidence import Arrays, Reduce


@dataclass
class Collected:
    """What was written, and what could not be."""

    files: list[tuple[Path, int, int]] = field(default_factory=list)
    """Files, with the number of their lines that are new or improved, and of those unchanged."""
    conflicts: list[str] = field(default_factory=list)
    unplanned: Counter[str] = field(default_factory=Counter)
    """By method without a row, the number of its records of planned recipes: they are left out."""


class Recorder(Records):
    """Records that remember which of their curves and diagnostics were read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.used_curves: dict[str, set[str]] = {}
        self.used_arrays: dict[str, dict[str, Arrays]] = {}

    def curves(self, record: Record, names: Sequence[str]) -> dict[str, Curve]:
        curves = super().curves(record, names)
        self.used_curves.setdefault(record.id, set()).update(curves)
        return curves

    def arrays(self, record: Record, reduce: Reduce) -> Arrays:
        arrays = super().arrays(record, reduce)
        if arrays:
            self.used_arrays.setdefault(record.id, {})[reduce.__name__] = arrays
        return arrays


def collect(
    planned: Sequence[Planned], store: Store, root: Path | None = None, contributor: str = ""
) -> Collected:
    """Publish the finished cells of every paper.

    Lines of other platforms and contributors stay, and so do those of cells that are not finished
    here, unless they are of an older version of a method that is.
    """
    for paper in sorted({item.paper for item in planned}):
        provenance.refuse_installed_copy(committed_runs.folder_of(paper, root))
    records, result = (Recorder(store), Collected(unplanned=_unplanned(planned, store)))
    artefacts.make(planned, records, root)
    name = contributor or committed_runs.contributor()
    for paper, scale in sorted({(item.paper, item.scale) for item in planned}):
        committed = committed_runs.read(paper, scale, root)
        if committed.problems:
            raise Corrupt(
                f"{committed.problems[0]}; mend or remove the file, or its other lines would be"
                " lost"
            )
        before = {line.json["checksum"] for line in committed.lines}
        items = unique(item for item in planned if item.paper == paper)
        versions = {
            item.cell.method: item.cell.version
            for item in items
            if _add(committed, item, records, name, result)
        }
        for line in committed.lines:
            if line.record.cell["version"] < versions.get(line.method, 0):
                committed.remove(line)
        after = {line.json["checksum"] for line in committed.lines}
        if after != before:
            with writing(committed.file.parent, "folder", ""):
                committed_runs.write(committed)
        if after:
            result.files.append((committed.file, len(after - before), len(after & before)))
    return result


def _unplanned(planned: Sequence[Planned], store: Store) -> Counter[str]:
    """Count, by method without a row, its records of recipes that are planned for other methods."""
    rows = {item.cell.method for item in planned}
    recipes = {canonical(item.cell.json["recipe"]) for item in planned}
    counts: Counter[str] = Counter()
    for cell in {*store.ids()} - {item.cell.id for item in planned}:
        try:
            record = store.get(cell)
        except (Corrupt, UserError):
            continue  # `repfl verify` reports it
        if record and record.cell["method"] not in rows:
            counts[record.cell["method"]] += canonical(record.cell["recipe"]) in recipes
    return +counts


def _add(
    committed: CommittedRuns, item: Planned, records: Recorder, contributor: str, result: Collected
) -> bool:
    """Add one finished cell with the curves and diagnostics that were read; return whether it is
    finished.
    """
    record = records.record(item.cell.id)
    if record is None or record.status not in ("done", "diverged"):
        return False
    signed = replace(record, provenance=record.origin.changed(contributor=contributor))
    line = Line(signed, item.column)
    old = next((each for each in committed.cells.get(line.cell, ()) if each.key == line.key), None)
    if old is not None and old.digests != line.digests:
        if not old.record.origin.unlike(signed.origin):
            result.conflicts.append(_conflict(old.record, signed))
            return True
        if signed.origin.dirty and not old.record.origin.dirty:
            result.conflicts.append(_conflict(old.record, signed, "a clone with changes"))
            return True
        old = None
    names = records.used_curves.get(line.cell, set()) | set(old.curves if old else ())
    line = line_of(signed, records.store, item.column, names)
    arrays: Mapping[str, Arrays] = records.used_arrays.get(line.cell, {})
    if old is not None:
        arrays = {**old.arrays, **arrays}
        line = line if _improves(old, line) else replace(old, curves=line.curves)
    committed.add(replace(line, arrays=arrays))
    return True


def _conflict(old: Record, new: Record, whence: str = "the same versions") -> str:
    text = f"value {old.value} in the line of {old.origin.finished}, {new.value} now"
    return f"cell {new.id[:12]} came out otherwise from {whence}: {text}; not taken"


def _improves(old: Line, line: Line) -> bool:
    """Return whether a line has more than one with the same digests: committed code, or counts."""
    cleaner = old.record.origin.dirty and not line.record.origin.dirty
    return bool(cleaner) or (old.counts is None and line.counts is not None)
