"""The artefacts as anyone sees them who has run nothing: from the values that came with the
code.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from repfl.bench.errors import Corrupt, unknown
from repfl.bench.evidence import artefacts
from repfl.bench.evidence.library import Library
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import plan
from repfl.bench.grid.planned import Selection
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Result, Table


@cache
def of(paper: str, scale: str, seed: int | None = None) -> tuple[Result, ...]:
    """The artefacts of one paper, of all seeds or of one; none at a scale that its grid has not."""
    if scale not in grids.read(grids.files()[paper]).file.scales:
        return ()
    seeds = [] if seed is None else [seed]
    made = artefacts.make(
        plan(Selection(scale=scale, papers=[paper], seeds=seeds)),
        Library(Store(Path("no results here"))),
    )
    if made.problems:
        raise Corrupt("; ".join(made.problems))
    return tuple(made.results)


def everything(scale: str) -> list[Result]:
    """The artefacts of all papers."""
    return [result for paper in grids.files() for result in of(paper, scale)]


def table(paper: str, name: str, scale: str, seed: int | None = None) -> Table:
    """One table."""
    found = of(paper, scale, seed)
    known = {result.name: result for result in found if isinstance(result, Table)}
    if name not in known:
        raise unknown("table", name, known, paper)
    return known[name]
