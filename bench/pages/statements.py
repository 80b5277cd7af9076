"""The numbers behind a claim or a published number, from the values that came with the code.

A claim has the id that its paper's CLAIMS.md gives it (`fedobp/best-in-table3`); a published number
is named by its file and line (`fedobp/table3.csv:14`), or as its page of the report is
(`fedpurin/table1#fedpurin.cifar10-dir0.1`). An artefact (`fedpurin/table1`) lists its numbers and
its claims.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from repfl.bench.errors import UserError, unknown
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import plan
from repfl.bench.grid.planned import Selection
from repfl.bench.pages import committed
from repfl.bench.report import numbers, render
from repfl.bench.report.filling import sheet_of
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import Claim, Result, frame_of

SCALES = ("paper", "desk")


def told(name: str) -> list[str]:
    """What is known of a claim or a published number, line by line."""
    paper, _, rest = name.partition("/")
    if not rest:
        raise UserError(
            "evidence is for PAPER/CLAIM, PAPER/FILE:LINE or PAPER/ARTEFACT, such as"
            f" fedobp/table3, not {name!r}; the claims are in paper_tables/*/CLAIMS.md"
        )
    if paper not in grids.files():
        raise unknown("paper", paper, grids.files())
    artefact, hash_, anchor = rest.partition("#")
    artefact = artefact.removesuffix(".html")  # as in the address of a page of the report
    whole = artefact in grids.read(grids.files()[paper]).file.artefacts
    rest = f"{artefact}{hash_}{anchor}" if whole else rest
    find = _artefact if whole else _number if ".csv:" in rest else _claim
    known: dict[str, None] = {}
    lines: list[str] = []
    for scale in SCALES:
        for result in committed.of(paper, scale):
            lines += find(result, rest, known)
    if not lines and whole and "#" not in rest:
        raise UserError(
            f"{name}: prints no number that stands in {paper}'s published/, and has no claim"
        )
    if not lines:
        raise unknown("claim" if find is _claim else "number", rest, known, paper)
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
    for cell in _cells(result):
        known[cell["source"]] = None
        if cell["source"] == rest:
            yield from _number_lines(result, cell)


def _artefact(result: Result, rest: str, known: dict[str, None]) -> Iterator[str]:
    """One number by its address in the report, or all of an artefact and its claims."""
    name, _, anchor = rest.partition("#")
    if result.name != name:
        return
    cells = _addresses(result)
    known |= {f"{name}#{id_}": None for id_ in cells}
    if anchor and anchor in cells:
        yield from _number_lines(result, cells[anchor])
    if not anchor and (cells or result.claims):
        yield f"{result.key} at the {result.scale} scale"
        yield from _listed(result, cells)


def _listed(result: Result, cells: dict[str, dict[Any, Any]]) -> Iterator[str]:
    """What there is to ask for, each with its standing."""
    for id_, cell in cells.items():
        address = f"{result.paper}/{cell['source']}"
        yield f"  {address}  {result.key}#{id_}: {_figures(cell)}, {cell['verdict']}"
    for claim in result.claims:
        yield f"  {result.paper}/{claim.id}: {claim.text} ({render.standing(claim)})"


def _addresses(result: Result) -> dict[str, dict[Any, Any]]:
    """The published numbers of a table or a figure by the names that its page gives them."""
    cells = list(_cells(result))
    if not cells:
        return {}
    numbers = [each for each in sheet_of(result, _printed(result.paper)).numbers if each.source]
    shown = {each.source: each.id for each in reversed(numbers)}
    return {shown[cell["source"]]: cell for cell in cells if cell["source"] in shown}


@cache
def _printed(paper: str) -> dict[str, dict[Any, Any]]:
    """The rows of the published files by their source."""
    return read_published(grids.folder(paper) / "published").by_source


def _cells(result: Result) -> Iterator[dict[Any, Any]]:
    """The published numbers of a table or a figure, each with ours."""
    frame = frame_of(result)
    if {"source", "verdict"} <= set(frame.columns):
        yield from (cell for cell in frame.to_dict("records") if cell["source"])


def _number_lines(result: Result, cell: dict[Any, Any]) -> Iterator[str]:
    yield f"{result.paper}/{cell['source']} at the {result.scale} scale ({result.key})"
    yield from _cell_lines(cell)
    yield from _again(result, cell)


def _cell_lines(cell: dict[Any, Any]) -> Iterator[str]:
    place = ", ".join(str(cell[name]) for name in ("row", "score", "column", "q") if name in cell)
    yield f"  {place}: {_figures(cell)}" + (
        f" ({int(cell['seeds'])} seeds)" if cell["seeds"] == cell["seeds"] else ""
    )
    gap = numbers.between(float(cell["gap_low"]), float(cell["gap_high"]), 2, " [{}, {}]")
    yield f"  {cell['verdict']} ({cell['kind']}){gap}: {cell['basis'] or 'no number of ours'}"
    if cell.get("ids"):
        yield f"  cells: {' '.join(each[:12] for each in cell['ids'])} (`repfl show CELL`)"


def _figures(cell: dict[Any, Any]) -> str:
    ours = numbers.spread(float(cell["ours"]), float(cell["std"]))
    return f"printed {numbers.plain(float(cell['published']))}, ours {ours}"


def _again(result: Result, cell: dict[Any, Any] | None = None) -> Iterator[str]:
    """The report once more, and the runs: of one number, only those that it needs."""
    asked = f"--scale {result.scale} --artefact {result.key}"
    yield f"  again: repfl report {asked}"
    needed = "" if cell is None else "".join(f" --cell {each}" for each in _needed(result, cell))
    yield f"  anew:  repfl reproduce {asked}{needed} --fresh"


def _needed(result: Result, cell: dict[Any, Any]) -> list[str]:
    """The cells that a number rests on, or will; none where it is more than one row and column."""
    place = (cell.get("row"), cell.get("column"))
    planned = plan(Selection(scale=result.scale, artefacts=[result.key]))
    mine = [item.cell.short for item in planned if (item.row, item.column) == place]
    return list(dict.fromkeys([each[:12] for each in cell.get("ids") or mine]))
