"""Verification of the measured values that travel with the code: does every line hold, and does it
come out again?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from repfl.bench.check import arithmetic
from repfl.bench.check.verify import Subject, Verification, check, partitions, sample
from repfl.bench.errors import UserError
from repfl.bench.evidence import measured, tiers
from repfl.bench.evidence.lines import Line, line_of
from repfl.bench.evidence.measured import Measured, Rerun
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Planned, Selection, plan
from repfl.bench.store import provenance
from repfl.bench.store.store import Record, Store

Subjects = list[tuple[Line, Subject]]


def verify(
    papers: Sequence[str],
    rerun: int = 0,
    seed: int = 0,
    root: Path | None = None,
    *,
    keep: bool = False,
) -> Verification:
    """Check every measured line, and compute `rerun` of those that can be computed here again.

    With `keep`, the lines that came out to the bit are noted as recomputed.
    """
    found = Verification()
    papers = grids.named(papers, grids.files())
    for paper in (papers or list(grids.files())) if keep else ():
        provenance.must_last(measured.folder_of(paper, root))
    files = [
        (known, _subjects(known, paper, found))
        for paper in papers or list(grids.files())
        for scale in grids.SCALES
        if (known := measured.read(paper, scale, root)).lines or known.problems
    ]
    if not found.records and not found.findings:
        place = measured.folder_of(papers[0] if papers else "*", root)
        raise UserError(f"no measured values under {place}; `repfl collect` writes them")
    sample(
        partitions([subject for _, subjects in files for _, subject in subjects], found),
        rerun,
        seed,
        found,
    )
    for known, subjects in files if keep else ():
        _keep(known, subjects, found)
    return found


def read(paper: str, scale: str, root: Path | None = None) -> Measured:
    """Measured values that hold, each told by the grid what it is of; what no grid plans any more
    is left as it is.
    """
    known = measured.read(paper, scale, root)
    if known.lines:
        sound(known, cells_of(paper, scale))
    return known


def of(planned: Sequence[Planned], root: Path | None = None) -> Measured:
    """Measured values of planned cells of one paper and scale that hold."""
    known = measured.read(planned[0].paper, planned[0].scale, root)
    sound(known, planned)
    return known


def cells_of(paper: str, scale: str) -> list[Planned]:
    """What a paper's grid plans at a scale; nothing where it has no such scale."""
    grid = grids.files().get(paper)
    if grid is None or scale not in grids.read(grid).file.scales:
        return []
    return plan(Selection(papers=[paper], scale=scale))


def sound(known: Measured, planned: Iterable[Planned]) -> None:
    """Tell the lines of planned cells what they are of, and refuse every one that does not hold by
    arithmetic.
    """
    cells = {item.cell.id: item.cell for item in planned}
    for line in known.lines:
        if line.cell in cells:
            record = replace(line.record, cell=cells[line.cell].json)
            known.add(replace(line, record=record))
            if wrong := arithmetic.of_line(record, line.curves, line.counts):
                known.problems.append(f"{known.file}: cell {line.cell[:12]}: {wrong[0]}; not used")
                known.forget(line)
                known.refused.add(line.key)


def _subjects(known: Measured, paper: str, found: Verification) -> Subjects:
    """The lines of one file as records of their cells; whatever does not hold is a finding."""
    found.records += len(known.lines)
    sound(known, cells_of(paper, known.scale))
    found.findings += known.problems
    if unplanned := [line.cell for line in known.lines if not line.record.cell]:
        told = (
            f"{len(unplanned)} lines are of cells that no grid plans any more, such as"
            f" {unplanned[0][:12]}"
        )
        found.notes.append(f"{known.file}: {told}; not used")
    whole = [line for line in known.lines if line.record.cell and check(line.record, found)]
    return [(line, _subject(line, tiers.apart(line, known))) for line in whole]


def _subject(line: Line, noise: float) -> Subject:
    """A line that can be computed again, with its counts, curves and diagnostics."""

    def kept(store: Store, fresh: Record) -> list[str]:
        again = line_of(fresh, line.axes, store)
        wrong = [
            f"curve {name}" for name, curve in line.drawn.items() if again.drawn.get(name) != curve
        ]
        return wrong + (["counts"] if line.counted and again.counted != line.counted else [])

    return Subject(line.record, kept, noise)


def _keep(known: Measured, subjects: Subjects, found: Verification) -> None:
    """Note which lines came out to the bit, by whom and from which commit."""
    equal = {id(subject) for subject in found.equal}
    again = [line for line, subject in subjects if id(subject) in equal]
    if again:
        known.reruns |= {line.key: Rerun.now(line) for line in again}
        measured.write(known)
