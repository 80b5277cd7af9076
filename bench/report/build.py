"""From planned cells to a report: what is known is gathered paper by paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from repfl.bench.grid import grid as grids
from repfl.bench.grid.planned import Planned, asked_beside
from repfl.bench.report.artefact_data import ArtefactData, Book
from repfl.bench.report.site import facts
from repfl.bench.store.store import Store, writing
from repfl.datasets.core.paths import real_path

if TYPE_CHECKING:
    import pandas as pd

    from repfl.paper_tables.core.result import Result

ASKED = 12
"""A command names as many cells at most; of more it names the artefact."""


@dataclass(frozen=True)
class Asked:
    """What is to be reported."""

    planned: Sequence[Planned]
    tested: Sequence[Planned] = ()
    """The cells of the self-test."""
    best: bool = False
    """Whether the scales of an artefact are merged, the best evidence first."""
    narrowed: bool = False
    """Whether some rows or columns are selected: tables have no others."""
    again: str = ""
    """What commands must say beside the artefact."""
    style: str = "report"


@dataclass
class Reported:
    """A report on disk."""

    page: Path
    sheets: list[ArtefactData] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """The artefacts that could not be made or drawn, by `paper/name`."""
    runs: int = 0
    """How many runs are behind it."""


def report(asked: Asked, store: Store, out: Path) -> Reported:
    """Write the selected artefacts and the pages above them."""
    from repfl.bench.report.site import pages

    with writing(out, "report", ", or choose another folder with --out DIR"):
        out.mkdir(parents=True, exist_ok=True)
        parts = {
            paper: _part([item for item in asked.planned if item.paper == paper], store, out, asked)
            for paper in dict.fromkeys(item.paper for item in asked.planned)
        }
        test = facts.tested(asked.tested, store)
        pages.write(_book(asked, parts, test["table"], store, out), out)
    return Reported(
        out / "index.html",
        [sheet for part in parts.values() for sheet in part.sheets],
        list(dict.fromkeys(_joined(part.problems for part in parts.values()) + test["problems"])),
        _joined(part.failed for part in parts.values()),
        sum(len(part.runs) for part in parts.values()),
    )


def _joined(lists: Iterable[list[str]]) -> list[str]:
    return [each for part in lists for each in part]


@dataclass(frozen=True)
class Part:
    """One paper's part of a report, on disk but for the pages."""

    sheets: list[ArtefactData]
    runs: dict[str, Any]
    """By cell, what is known of the runs behind the sheets."""
    readings: list[list[str]]
    """How many verdicts come out how under each reading of a printed ±: a head and lines."""
    problems: list[str]
    failed: list[str]


def _part(planned: Sequence[Planned], store: Store, out: Path, asked: Asked) -> Part:
    """Make one paper's artefacts and write their tables and figures."""
    from repfl.bench.evidence import across_scales, artefacts
    from repfl.bench.evidence.committed import committed_runs
    from repfl.bench.evidence.library import CellEvidence, Library
    from repfl.bench.report import run_details
    from repfl.bench.report.formats import render
    from repfl.bench.report.to_sheet import sheet_of
    from repfl.paper_tables.core.published import read_published

    library, results = Library(store), []
    problems: list[str] = []
    failed: list[str] = []
    shown = across_scales.with_evidence(planned, library) if asked.best else list(planned)
    told: dict[str, Any] = {}
    for scale in _rising(shown):
        mine = [item for item in shown if item.scale == scale]
        made = artefacts.make(mine, library)
        results += made.results
        problems += made.problems
        failed += made.failed
        told |= run_details.told(
            mine, CellEvidence(library, committed_runs.read(mine[0].paper, scale)), asked.again
        )
    order = list(dict.fromkeys(item.key for item in planned))
    results = across_scales.merged(results) if asked.best else results
    if asked.narrowed:
        results = [_narrowed(result, planned) for result in results]
    results.sort(key=lambda result: order.index(result.key))
    rows = read_published(grids.folder(planned[0].paper) / "published").by_source

    def tell(result: Result) -> ArtefactData:
        more = _places(result.key, planned, told, asked)
        return sheet_of(result, rows, asked.style, logged=_logged(result.paper, rows), **more)

    sheets, undrawn = render.write(results, tell, out, asked.style)
    problems += [f"artefact {name} could not be drawn: {why}" for name, why in undrawn.items()]
    return Part(
        sheets,
        told,
        _readings(results),
        list(dict.fromkeys(problems)),
        list(dict.fromkeys([*failed, *undrawn])),
    )


def _readings(results: Iterable[Result]) -> list[list[str]]:
    """Return how many verdicts come out how under each reading of a printed ±: a head and lines."""
    from repfl.paper_tables.core.result import Table
    from repfl.paper_tables.core.statistics.verdict import readings

    found = readings(result.frame for result in results if isinstance(result, Table))
    return _lines("what the printed ± is taken for", found)


def _lines(corner: str, found: pd.DataFrame) -> list[list[str]]:
    lines = [
        [str(name), *map(str, line)]
        for name, line in zip(found.index, found.to_numpy(), strict=True)
    ]
    return [[corner, *found.columns], *lines] if lines else []


def _narrowed(result: Result, planned: Sequence[Planned]) -> Result:
    """Return a table with those rows and columns of which some cell is planned, and without the
    claims, which are about the whole table.
    """
    from repfl.paper_tables.core.result import Table

    if not isinstance(result, Table):
        return result
    mine = [item for item in planned if item.key == result.key]
    measured = result.frame[result.frame["ours"].notna()]
    rows = {item.row for item in mine} | set(measured["row"])
    keys = {item.column for item in mine} | set(measured["column"])
    layout = replace(
        result.layout,
        rows=tuple(row for row in result.layout.rows if row in rows),
        columns=tuple(each for each in result.layout.columns if each.key in keys),
    )
    kept = result.frame["row"].isin(rows) & result.frame["column"].isin(keys)
    return replace(result, frame=result.frame[kept], layout=layout, claims=())


def _rising(planned: Iterable[Planned]) -> list[str]:
    """The scales, the highest last: a cell that stands in several grids is told of as its highest
    scale has it, as are the numbers that it is behind.
    """
    return sorted({item.scale for item in planned}, key=grids.SCALES.index)


def _places(
    key: str, planned: Sequence[Planned], told: Mapping[str, Any], asked: Asked
) -> dict[str, Any]:
    """What a sheet tells of its cells: the command that makes them, the data behind columns, and
    what would improve the evidence where nothing has run at the highest scale.
    """
    mine = [item for item in planned if item.key == key]
    guests = dict.fromkeys(item.guest for item in mine if item.guest)
    command = f"repfl report --artefact {key}{asked.again}"
    if not asked.best:
        beside = asked_beside(mine[0].file, guests)
        command = f"repfl reproduce --scale {mine[0].scale} --artefact {key}{beside}{asked.again}"
    highest = max((item.scale for item in mine), key=grids.SCALES.index)
    return {
        "command": command,
        "datasets": {item.column: str(item.cell.recipe["dataset"]) for item in mine},
        "wants": _wants([item for item in mine if item.scale == highest], told, asked),
    }


def _logged(paper: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """By source, the accuracy by round of the authors' own run of a published number, of papers
    that have a module of logs.
    """
    from importlib import import_module

    if not (grids.folder(paper) / "logs.py").is_file():
        return {}
    logs = import_module(f"repfl.paper_tables.{paper.replace('-', '_')}.logs")
    runs: dict[tuple[str, str], dict[str, Any]] = {}
    for run in logs.runs():
        runs.setdefault((run["dataset"], run["method"]), {})[run["setting"]] = run["points"]
    return {
        source: [list(point) for point in points]
        for source, row in rows.items()
        for setting, points in runs.get((row["dataset"], row["method"]), {}).items()
        if setting in row["setting"]
    }


def _wants(
    planned: Sequence[Planned], told: Mapping[str, Any], asked: Asked
) -> dict[str, dict[str, Any]]:
    """By row and column, the command that would compute what is missing, and its cost."""
    from repfl.bench.run import cost

    groups: dict[str, dict[str, Planned]] = {}
    for item in planned:
        if item.cell.id not in told and not item.skip:
            missing = groups.setdefault(f"{item.row}|{item.column}", {})
            missing.setdefault(item.cell.id, item)
    found: dict[str, dict[str, Any]] = {}
    for place, cells in groups.items():
        items = list(cells.values())
        first = items[0]
        named = "".join(f" --cell {quote(item.cell.short)}" for item in items[:ASKED])
        guests = dict.fromkeys(item.guest for item in items if item.guest)
        asking = f"--artefact {first.key}{named if len(items) <= ASKED else ''}"
        found[place] = {
            "cells": len(items),
            "seconds": round(sum(map(cost.static, items))),
            "command": (
                f"repfl run --scale {first.scale} {asking}{asked_beside(first.file, guests)}"
                f"{asked.again}"
            ),
        }
    return found


def _book(
    asked: Asked, parts: Mapping[str, Part], test: Mapping[str, Any], store: Store, out: Path
) -> Book:
    """Everything that the pages show."""
    import os

    sheets = [sheet for part in parts.values() for sheet in part.sheets]
    runs = {cell: run for part in parts.values() for cell, run in part.runs.items()}
    names = sorted({item.cell.method for item in asked.planned})
    datasets = sorted({name for sheet in sheets for name in sheet.datasets.values()})
    grid_of = {i.cell.method: asked_beside(i.file, ()) for i in asked.planned if i.file}
    again = {name: grid_of.get(name, "") + asked.again for name in names}
    papers: dict[str, list[Planned]] = {}
    for item in asked.planned:
        papers.setdefault(item.paper, []).append(item)
    return Book(
        sheets,
        {paper: facts.of_paper(mine[0], mine, runs) for paper, mine in papers.items()},
        runs,
        facts.still_open(asked.planned, runs, asked.again) if asked.best else {},
        test,
        {name: facts.of_method(name) | {"again": again[name]} for name in names},
        {name: facts.of_dataset(name) for name in datasets},
        facts.origins(runs),
        {paper: part.readings for paper, part in parts.items() if part.readings},
        Path(os.path.relpath(real_path(store.root), real_path(out))).as_posix(),
        str(out),
        facts.repository(),
    )
