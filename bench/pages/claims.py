"""All claims of a paper in one table, with ids: `paper_tables/<paper>/CLAIMS.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from repfl.bench.evidence import measured
from repfl.bench.pages import committed
from repfl.bench.report import render
from repfl.paper_tables.core.result import Result

HEAD = """# Claims of {paper}

Every sentence that is judged, by `python -m repfl.bench.pages` from the values that came with the
code. `repfl evidence {paper}/ID` prints the numbers behind one. How an answer is made:
[STATISTICS.md](../../bench/STATISTICS.md).

A claim that is *free* of scale (bytes, counts, identities, what is printed) is judged by any run.
All others are judged by runs of the paper's own scale, and are *open* as long as these are missing
or too noisy. What runs of the desk scale say of an open claim stands beside it, with intervals and
numbers of seeds, and decides nothing. It points neither way if a claim states a number that depends
on how long runs are, or if ours are of data that stand in. A claim that states *settings* is held
against what the grid of the paper scale plans; smaller scales have settings of their own.

| id | sentence | free | in the paper's own numbers | standing | the desk scale's runs |
|---|---|---|---|---|---|
"""


def page_of(paper: str) -> Path:
    """Where the table stands."""
    return measured.folder_of(paper).parent / "CLAIMS.md"


def page(paper: str) -> str:
    """The whole page."""
    full, desk = (committed.of(paper, scale) for scale in ("paper", "desk"))
    return HEAD.format(paper=paper) + "".join(f"{line}\n" for line in lines(full, desk))


def lines(full: Sequence[Result], desk: Sequence[Result]) -> list[str]:
    """A line per claim."""
    smaller = {claim.id: claim for result in desk for claim in result.claims}
    found = []
    for claim in (claim for result in full for claim in result.claims):
        lesser = smaller[claim.id]
        best = lesser if claim.free and claim.holds is None else claim
        points = render.POINTS.get(lesser.suggests) if lesser.suggests is not None else ""
        fields = (
            f"`{claim.id}`",
            claim.text,
            "yes" if claim.free else "settings" if claim.settings else "",
            "" if claim.printed is None else render.STANDINGS[claim.printed],
            render.standing(best),
            f"{points}: {lesser.detail}" if points else lesser.detail,
        )
        found.append(f"| {' | '.join(field.replace('|', '/') for field in fields)} |")
    return found
