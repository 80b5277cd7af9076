"""From planned cells to a report, paper by paper."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from repfl.bench.grid import grid as grids
from repfl.bench.grid.planned import Planned, plan_options
from repfl.bench.report.sheet import Book, Sheet
from repfl.bench.report.site import facts
from repfl.bench.store import provenance
from repfl.bench.store.store import Store, writing
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    import pandas as pd

    from repfl.bench.report.numbers import Number
    from repfl.paper_tables.core.result import Result

MAX_NAMED_CELLS = 12
"""A command for more cells names the artefact instead."""


@dataclass(frozen=True)
class Request:
    """What to report, and how."""

    planned: Sequence[Planned]
    self_test: Sequence[Planned] = ()
    """The cells of the self-test."""
    best: bool = False
    """Whether the scales of an artefact are merged, the best evidence first."""
    narrowed: bool = False
    """Whether tables have only the selected rows and columns."""
    again: str = ""
    """The options that commands need for the same plug-ins and records."""


@dataclass
class WrittenReport:
    """A report on disk."""

    page: Path
    sheets: list[Sheet] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    """The artefacts that could not be made or drawn, by `paper/name`."""
    runs: int = 0
    """The number of runs behind it."""


def report(request: Request, store: Store, out: Path) -> WrittenReport:
    """Write the selected artefacts, the frames behind them, and the pages above them."""
    import pandas as pd

    from repfl.bench.report import front_picture
    from repfl.bench.report.site import pages

    with writing(out, "report", "choose another folder with --out DIR"):
        out.mkdir(parents=True, exist_ok=True)
        papers = dict.fromkeys(item.paper for item in request.planned)
        parts = {paper: _part(paper, store, out, request) for paper in papers}
        test = facts.self_test(request.self_test, store)
        pages.write(_book(request, parts, test["table"], store, out), out)
        shown = [n for part in parts.values() for sheet in part.sheets for n in sheet.numbers]
        cells = pd.concat([part.frame for part in parts.values()], ignore_index=True)
        write_frames(shown, cells, out)
        front_picture.write(shown, str(provenance.commit()["commit"] or "unknown"), out)
    return WrittenReport(
        out / "index.html",
        [sheet for part in parts.values() for sheet in part.sheets],
        list(dict.fromkeys(_flat(part.problems for part in parts.values()) + test["problems"])),
        _flat(part.failed for part in parts.values()),
        sum(len(part.runs) for part in parts.values()),
    )


def write_frames(shown: Sequence[Number], cells: pd.DataFrame, out: Path) -> None:
    """Write the two frames that everything in the report is a function of."""
    from repfl.bench.report import numbers

    # the options of a partition's rule have a name within the recipe, too
    kept = cells.loc[:, [not str(name).startswith("partition.") for name in cells]]
    for name, frame in {"numbers": numbers.frame(shown), "runs": kept}.items():
        text = numbers.as_csv(frame)
        (out / f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")


def _flat(lists: Iterable[list[str]]) -> list[str]:
    return [each for part in lists for each in part]


@dataclass(frozen=True)
class Part:
    """One paper's part of a report, with tables and figures on disk."""

    sheets: list[Sheet]
    runs: dict[str, Any]
    """By cell, the facts about the runs behind the sheets."""
    frame: pd.DataFrame
    """The frame `runs` of its planned cells."""
    problems: list[str]
    failed: list[str]


def _part(paper: str, store: Store, out: Path, request: Request) -> Part:
    """Make one paper's artefacts and write their tables and figures."""
    import pandas as pd

    from repfl.bench.evidence import artefacts, merge_scales
    from repfl.bench.evidence.cell_evidence import Records
    from repfl.bench.evidence.runs import runs as runs_of
    from repfl.bench.report import run_details
    from repfl.bench.report.formats import render
    from repfl.bench.report.sheet import sheet_of
    from repfl.paper_tables.core.published import read_published

    planned = [item for item in request.planned if item.paper == paper]
    records, results = Records(store), []
    problems: list[str] = []
    failed: list[str] = []
    evidenced = merge_scales.with_evidence(planned, records) if request.best else list(planned)
    runs: dict[str, Any] = {}
    frames = []
    for scale in _scales(evidenced):
        items = [item for item in evidenced if item.scale == scale]
        made = artefacts.make(items, records)
        results += made.results
        problems += made.problems
        failed += made.failed
        evidence = made.evidence[paper]
        runs |= run_details.describe_runs(items, evidence, request.again)
        cells = runs_of(items, evidence).drop(columns="metrics")
        cells.insert(0, "scale", scale)
        cells.insert(0, "paper", paper)
        frames.append(cells)
    order = list(dict.fromkeys(item.key for item in planned))
    results = merge_scales.merged(results) if request.best else results
    if request.narrowed:
        results = [_select(result, planned) for result in results]
    results.sort(key=lambda result: order.index(result.key))
    rows = read_published(grids.folder(paper) / "published").by_source

    def make_sheet(result: Result) -> Sheet:
        fields = _sheet_fields(result.key, planned, runs, request)
        return sheet_of(result, rows, logged=_logs(result.paper, rows), **fields)

    sheets, undrawn = render.write(results, make_sheet, out)
    problems += [f"artefact {name} could not be drawn: {why}" for name, why in undrawn.items()]
    return Part(
        sheets,
        runs,
        pd.concat(frames, ignore_index=True),
        list(dict.fromkeys(problems)),
        list(dict.fromkeys([*failed, *undrawn])),
    )


def _select(result: Result, planned: Sequence[Planned]) -> Result:
    """Return a table without the rows and columns that were not selected, and without claims, which
    are about the whole table.
    """
    from repfl.paper_tables.core.result import Table

    if not isinstance(result, Table):
        return result
    items = [item for item in planned if item.key == result.key]
    measured = result.frame[result.frame["ours"].notna()]
    rows = {item.row for item in items} | set(measured["row"])
    keys = {item.column for item in items} | set(measured["column"])
    layout = replace(
        result.layout,
        rows=tuple(row for row in result.layout.rows if row in rows),
        columns=tuple(each for each in result.layout.columns if each.key in keys),
    )
    selected = result.frame["row"].isin(rows) & result.frame["column"].isin(keys)
    return replace(result, frame=result.frame[selected], layout=layout, claims=())


def _scales(planned: Iterable[Planned]) -> list[str]:
    """Return the scales, the highest last: it overwrites what others say of a shared cell."""
    return sorted({item.scale for item in planned}, key=grids.SCALES.index)


def _sheet_fields(
    key: str, planned: Sequence[Planned], runs: Mapping[str, Any], request: Request
) -> dict[str, Any]:
    """Return the command that makes an artefact's cells, the data sets behind its columns, and the
    runs that it lacks at the highest scale.
    """
    items = [item for item in planned if item.key == key]
    guests = dict.fromkeys(item.guest for item in items if item.guest)
    command = f"repfl report --artefact {key}{request.again}"
    if not request.best:
        extra = plan_options(items[0].file, guests)
        command = f"repfl reproduce --scale {items[0].scale} --artefact {key}{extra}{request.again}"
    highest = max((item.scale for item in items), key=grids.SCALES.index)
    return {
        "command": command,
        "datasets": {item.column: item.cell.recipe.dataset for item in items},
        "panels": {item.column: item.column_label for item in items},
        "wants": _missing_commands(
            [item for item in items if item.scale == highest], runs, request
        ),
    }


def _logs(paper: str, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, list[list[float]]]:
    """Return, by source, the accuracy by round in the authors' logs of a published number, for
    papers that have a module of logs.
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


def _missing_commands(
    planned: Sequence[Planned], runs: Mapping[str, Any], request: Request
) -> dict[str, dict[str, Any]]:
    """Return, by row and column, the command that would compute what is missing, and its cost."""
    from repfl.bench.run import cost

    groups: dict[str, dict[str, Planned]] = {}
    for item in planned:
        if item.cell.id not in runs and not item.skip:
            missing = groups.setdefault(f"{item.row}|{item.column}", {})
            missing.setdefault(item.cell.id, item)
    commands: dict[str, dict[str, Any]] = {}
    for key, cells in groups.items():
        items = list(cells.values())
        first = items[0]
        options = "".join(f" --cell {quote(item.cell.short)}" for item in items[:MAX_NAMED_CELLS])
        guests = dict.fromkeys(item.guest for item in items if item.guest)
        selection = f"--artefact {first.key}{options if len(items) <= MAX_NAMED_CELLS else ''}"
        commands[key] = {
            "cells": len(items),
            "seconds": round(sum(map(cost.static, items))),
            "command": (
                f"repfl run --scale {first.scale} {selection}{plan_options(first.file, guests)}"
                f"{request.again}"
            ),
        }
    return commands


def _book(
    request: Request, parts: Mapping[str, Part], test: Mapping[str, Any], store: Store, out: Path
) -> Book:
    """Return the contents of all pages."""
    import os

    sheets = [sheet for part in parts.values() for sheet in part.sheets]
    runs = {cell: run for part in parts.values() for cell, run in part.runs.items()}
    names = sorted({item.cell.method for item in request.planned})
    datasets = sorted({name for sheet in sheets for name in sheet.datasets.values()})
    grid_of = {i.cell.method: plan_options(i.file, ()) for i in request.planned if i.file}
    again = {name: grid_of.get(name, "") + request.again for name in names}
    splits = facts.splits(request.planned)
    papers: dict[str, list[Planned]] = {}
    for item in request.planned:
        papers.setdefault(item.paper, []).append(item)
    return Book(
        sheets,
        {paper: facts.of_paper(items[0], items, runs) for paper, items in papers.items()},
        runs,
        facts.missing_cells(request.planned, runs, request.again) if request.best else {},
        test,
        {name: facts.of_method(name) | {"again": again[name]} for name in names},
        {name: facts.of_dataset(name) | {"dealt": splits.get(name, [])} for name in datasets},
        facts.origins(runs),
        Path(os.path.relpath(real_path(store.root), real_path(out))).as_posix(),
        str(out),
        facts.documents(request.planned) if request.best else {},
        facts.repository(),
    )
