"""The numbers behind one claim or one published number, from a folder of records and from the
results that come with the code.

A claim has the id that its paper's page of claims shows (`fedobp/best-in-table3`); a published
number is named by its file and line (`fedobp/table3.csv:14`). An artefact (`fedpurin/table1`) lists
its numbers and claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from repfl.bench.errors import Corrupt, UserError, unknown
from repfl.bench.evidence import artefacts
from repfl.bench.evidence.cell_evidence import Records
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report.curves import curve_lines
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import sheet_of
from repfl.bench.store.store import Store
from repfl.paper_tables.core.number_text import BLANK
from repfl.paper_tables.core.published import read_published
from repfl.paper_tables.core.result import Claim, Result

SCALES = ("paper", "desk")
NO_RECORDS = Path("no results here")


@cache
def made(
    paper: str, scale: str, records: Path = NO_RECORDS, artefact: str = ""
) -> tuple[Result, ...]:
    """Return a paper's tables and figures, or one, from records and else from committed runs."""
    if scale not in grids.read(grids.files()[paper]).file.scales:
        return ()
    planned = plan(Selection(scale=scale, papers=[paper]))
    planned = [item for item in planned if artefact in ("", item.artefact)]
    if not planned:
        return ()
    result = artefacts.make(planned, Records(Store(records)))
    if result.problems:
        raise Corrupt("; ".join(result.problems))
    return tuple(result.results)


def has_content(key: str) -> bool:
    """Return whether an artefact shows published numbers or has claims."""
    paper, _, name = key.partition("/")
    results = (result for scale in SCALES for result in made(paper, scale, artefact=name))
    return any(result.claims or _numbers(result) for result in results)


def describe(name: str, records: Path, again: str) -> list[str]:
    """Return what is behind a claim, a published number or an artefact, line by line. `again` are
    the options by which a command finds the same plug-ins and records.
    """
    paper, _, rest = name.partition("/")
    if not rest:
        raise UserError(
            f"{name!r} is not valid; valid: PAPER/CLAIM, PAPER/FILE:LINE or PAPER/ARTEFACT, such as"
            " fedobp/table3; `repfl list claims` lists claims"
        )
    if paper not in grids.files():
        raise unknown("paper", paper, grids.files())
    is_artefact = rest in grids.read(grids.files()[paper]).file.artefacts
    find = _find_artefact if is_artefact else _find_number if ".csv:" in rest else _find_claim
    names: dict[str, None] = {}
    lines = [
        line
        for scale in SCALES
        for result in made(paper, scale, records, rest if is_artefact else "")
        for line in find(result, rest, names, again)
    ]
    if not lines and is_artefact:
        raise UserError(
            f"{name}: prints no number that stands in {paper}'s published/, and has no claim"
        )
    if not lines and find is _find_claim:
        artefacts_ = grids.read(grids.files()[paper]).file.artefacts
        raise unknown("claim, table or figure", rest, [*names, *artefacts_], paper)
    if not lines:
        raise unknown("number", rest, names, paper)
    return lines


def _find_claim(result: Result, rest: str, names: dict[str, None], again: str) -> Iterator[str]:
    for claim in result.claims:
        names[claim.id] = None
        if claim.id == rest:
            yield from _claim_lines(result, claim, again)


def _claim_lines(result: Result, claim: Claim, again: str) -> Iterator[str]:
    """Yield a claim at one scale, and the command that repeats its runs."""
    yield f"{result.paper}/{claim.id} at the {result.scale} scale ({result.key})"
    yield f"  {claim.text} ({claim.place}; in our words)"
    yield f"  {claim.state}"
    if claim.in_print:
        yield f"  {claim.in_print}"
    yield f"  {claim.why}"
    if claim.sources:
        yield f"  stated in published/: {', '.join(claim.sources)}"
    yield from _commands(result, again)


def _find_number(result: Result, rest: str, names: dict[str, None], again: str) -> Iterator[str]:
    """Yield a published number as a table, a figure or a claim shows it."""
    for claim in result.claims:
        names |= dict.fromkeys(claim.sources)
        if rest in claim.sources:
            yield from _claim_lines(result, claim, again)
    for number in _numbers(result):
        names[number.source] = None
        if number.source == rest:
            yield from _number_lines(result, number, again)


def _find_artefact(result: Result, rest: str, names: dict[str, None], again: str) -> Iterator[str]:
    """Yield all numbers and claims of an artefact."""
    numbers = _numbers(result)
    if numbers or result.claims:
        yield f"{result.key} at the {result.scale} scale"
        for number in numbers:
            label = f"{number.row}, {number.where}: {_figures(number)}, {number.verdict_text}"
            yield f"  {result.paper}/{number.source}  {label}"
        for claim in result.claims:
            yield f"  {result.paper}/{claim.id}: {claim.text} ({claim.state})"


def _numbers(result: Result) -> list[Number]:
    """Return the published numbers of a table or a figure, each with ours."""
    rows = read_published(grids.folder(result.paper) / "published").by_source
    return [number for number in sheet_of(result, rows).numbers if number.source]


def _number_lines(result: Result, number: Number, again: str) -> Iterator[str]:
    yield f"{result.paper}/{number.source} at the {result.scale} scale ({result.key})"
    yield f"  {number.row}, {number.where}: {_figures(number)}"
    gap = f" {number.difference_text}" if number.difference_text else ""
    basis = f"{number.basis or 'no number of ours'}{'; see bench/STATISTICS.md' if gap else ''}"
    yield f"  {number.verdict_text} ({number.kind}){gap}: {basis}"
    for line in curve_lines(result, {}):
        if (line.row, line.column) == (number.row, number.column):
            yield f"  curve, rounds {line.rounds}, {line.setting}: {line.in_words}"
    if number.runs:
        yield f"  cells: {' '.join(each[:12] for each in number.runs)} (`repfl show CELL`)"
    yield from _commands(result, again, number)


def _figures(number: Number) -> str:
    stale = ", stale" * ("stale" in number.tier)
    runs = f" ({number.seeds} run{'s' * (number.seeds > 1)}{stale})" if number.seeds else ""
    return f"reported {number.printed_text}, ours {number.ours_text or BLANK}{runs}"


def _commands(result: Result, again: str, number: Number | None = None) -> Iterator[str]:
    """Yield the commands that report and run an artefact, or the cells that one number needs."""
    selection = f"--scale {result.scale} --artefact {result.key}"
    yield f"  report: repfl report {selection}{again}"
    planned = _planned_cells(result, number) if number else []
    runs = number.runs if number else ()
    cell_options = _cell_options(runs or planned)
    if number and not cell_options:
        yield f"  no cell of this row and column at this scale; all: repfl plan {selection}{again}"
        return
    run, fresh = ("re-run", " --fresh") if runs else ("run", "")
    yield f"  {run}: repfl reproduce {selection}{cell_options}{again}{fresh}"
    more = [each for each in planned if each not in runs]
    if number and number.verdict == "undecided" and runs and more:
        count = f"{len(more)} more planned run{'s' * (len(more) > 1)}"
        yield f"  {count} would narrow it; cost: repfl plan {selection}{_cell_options(more)}{again}"


def _cell_options(cells: Iterable[str]) -> str:
    """Return the options that select some cells."""
    return "".join(f" --cell {each}" for each in dict.fromkeys(cell[:12] for cell in cells))


def _planned_cells(result: Result, number: Number) -> list[str]:
    """Return the cells of a number's row and column."""
    planned = plan(Selection(scale=result.scale, artefacts=[result.key]))
    key = number.row, number.column
    return list(dict.fromkeys(e.cell.id for e in planned if (e.row, e.column) == key))


def all_claims() -> list[dict[str, Any]]:
    """Return every claim of the papers, with its state by the runs of the paper's scale."""
    return [
        {
            "claim": f"{result.paper}/{claim.id}",
            "artefact": result.key,
            "state": str(claim.state),
            "text": claim.text,
            "sources": list(claim.sources),
        }
        for paper in grids.files()
        for result in made(paper, "paper")
        for claim in result.claims
    ]
