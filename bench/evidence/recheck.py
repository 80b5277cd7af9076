"""Verification of the measured values that travel with the code: is each of a planned cell, and does it come out again?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.cells import grid as grids
from bench.cells.plan import Selection, plan
from bench.errors import UserError
from bench.evidence import measured
from bench.records.store import Record
from bench.trust.verify import Verification, check, sample


def verify(papers: Sequence[str], rerun: int = 0, seed: int = 0, root: Path | None = None) -> Verification:
    """Check every measured line, and compute `rerun` of those that can be computed here again."""
    found, sound = Verification(), list[Record]()
    for paper in papers or list(grids.files()):
        for scale in grids.SCALES:
            sound += _lines(paper, scale, root, found)
    if not found.records and not found.findings:
        raise UserError(f"no measured values under {measured.folder_of(papers[0] if papers else '*', root)}; `repfl collect` writes them")
    sample(sound, rerun, seed, found)
    return found


def _lines(paper: str, scale: str, root: Path | None, found: Verification) -> list[Record]:
    """The lines of one file as records of their cells."""
    known = measured.read(paper, scale, root)
    found.findings += known.problems
    found.records += len(known.records)
    if not known.records:
        return []
    cells = {item.cell.id: item.cell.json for item in plan(Selection(papers=[paper], scale=scale))}
    strangers = [cell for cell in known.records if cell not in cells]
    if strangers:
        place = known.folder / f"{scale}.csv"
        found.notes.append(
            f"{place}: {len(strangers)} lines are of cells that no grid plans any more, such as {strangers[0][:12]}; not used"
        )
    planned = [replace(record, cell=cells[cell]) for cell, record in known.records.items() if cell in cells]
    return [record for record in planned if check(record, found)]
