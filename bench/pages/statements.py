"""The numbers behind a claim or a published number, from the values that came with the code.

A claim has the id that its paper's CLAIMS.md gives it (`fedobp/best-in-table3`); a published number
is named by its file and line (`fedobp/table3.csv:14`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from repfl.bench.cells import grid as grids
from repfl.bench.errors import UserError, unknown
from repfl.bench.pages import committed
from repfl.bench.report import numbers, render
from repfl.paper_tables.core.result import Claim, Figure, Result, Table

SCALES = ("paper", "desk")


def told(name: str) -> list[str]:
    """What is known of a claim or a published number, line by line."""
    paper, _, rest = name.partition("/")
    if not rest:
        raise UserError(
            f"evidence is for PAPER/CLAIM or PAPER/FILE:LINE, not {name!r}; the claims are in"
            " paper_tables/*/CLAIMS.md"
        )
    if paper not in grids.files():
        raise unknown("paper", paper, grids.files())
    find = _number if ".csv:" in rest else _claim
    known: dict[str, None] = {}
    lines: list[str] = []
    for scale in SCALES:
        for result in committed.of(paper, scale):
            lines += find(result, rest, known)
    if not lines:
        raise unknown("number" if ".csv:" in rest else "claim", rest, known, paper)
    return lines


def _claim(result: Result, rest: str, known: dict[str, None]) -> Iterator[str]:
    """A claim, as one artefact has it."""
    for claim in result.claims:
        known[claim.id] = None
        if claim.id == rest:
            yield from claim_lines(result, claim)


def claim_lines(result: Result, claim: Claim) -> Iterator[str]:
    """A claim at one scale, and how to make it again."""
    yield f"{result.paper}/{claim.id} at the {result.scale} scale ({result.key})"
    yield f"  {claim.text} (in our words)"
    yield f"  {render.standing(claim)}" + (
        "" if claim.printed is None else f"; in the paper's own numbers: {_word(claim.printed)}"
    )
    yield f"  {claim.detail}"
    if claim.sources:
        yield f"  stated in published/: {', '.join(claim.sources)}"
    yield from _again(result)


def _word(holds: bool) -> str:
    return render.STANDINGS[holds]


def _number(result: Result, rest: str, known: dict[str, None]) -> Iterator[str]:
    """A published number, as a table, a figure or a claim has it."""
    for claim in result.claims:
        known |= dict.fromkeys(claim.sources)
        if rest in claim.sources:
            yield from claim_lines(result, claim)
    frame = (
        result.frame
        if isinstance(result, Table)
        else result.data
        if isinstance(result, Figure)
        else None
    )
    if frame is None or not {"source", "verdict"} <= set(frame.columns):
        return
    known |= dict.fromkeys(source for source in frame["source"] if source)
    for cell in frame[frame["source"] == rest].to_dict("records"):
        yield f"{result.paper}/{rest} at the {result.scale} scale ({result.key})"
        yield from _cell_lines(cell)
        yield from _again(result)


def _cell_lines(cell: dict[Any, Any]) -> Iterator[str]:
    place = ", ".join(str(cell[name]) for name in ("row", "score", "column", "q") if name in cell)
    ours = numbers.spread(float(cell["ours"]), float(cell["std"]))
    yield f"  {place}: printed {numbers.plain(float(cell['published']))}, ours {ours}" + (
        f" ({int(cell['seeds'])} seeds)" if cell["seeds"] == cell["seeds"] else ""
    )
    gap = numbers.between(float(cell["gap_low"]), float(cell["gap_high"]), 2, " [{}, {}]")
    yield f"  {cell['verdict']} ({cell['kind']}){gap}: {cell['basis'] or 'no number of ours'}"
    if cell.get("ids"):
        yield f"  cells: {' '.join(each[:12] for each in cell['ids'])} (`repfl show CELL`)"


def _again(result: Result) -> Iterator[str]:
    yield f"  again: repfl report --scale {result.scale} --artefact {result.key}"
    yield f"  anew:  repfl reproduce --scale {result.scale} --artefact {result.key} --fresh"
