"""What has been computed, as data frames: own runs, and the values published with this code."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pandas as pd

from repfl.bench.errors import Corrupt, UserError, one_line, unknown
from repfl.catalog import Grids, Plugins, load_plugins, paths

if TYPE_CHECKING:
    from repfl.bench.evidence.committed.committed_run import Line
    from repfl.bench.store.record import Record
    from repfl.bench.store.store import Store

Cells: TypeAlias = "pd.DataFrame | str | Iterable[str]"
"""Rows of `load`, an id, or several ids; an id may be cut short."""


class ComputedCell(NamedTuple):
    """A cell that somebody has computed."""

    record: Record
    line: Line | None
    """The committed run; None for a run of the user's own."""
    paper_scale: tuple[str, str] = ("", "")
    """Paper and scale of a committed run."""


def load(
    results: str | Path | None = None,
    *,
    paper: str | None = None,
    scale: str | None = None,
    measured: bool = True,
    plugins: Plugins = (),
    grids: Grids = (),
) -> pd.DataFrame:
    """Return one row per cell, by its id: the runs in a results folder (`REPFL_RESULTS`, else
    ./results), and with `measured` the values that came with the code. With a paper or a scale, its
    committed runs and the runs of recipes that its grid has there, whatever their method; `paper`
    may also be the name of a file in `grids`.

    The columns are those of `runs.csv`, explained on the report's page "How to read this", after
    five of its place: `paper`, `scale`, `recipe`, `options`, the hyper-parameters that are not the
    method's defaults, and `chosen`, what validation chose in a search of `grids` or of `paper`,
    empty for other trials. `recipe` is named as in the papers' grids and in `grids`, files of your
    own, with what a sweep changes in brackets; of a recipe that stands in none, it says how it
    differs from the others. `accuracy` and `floor` are shares of 1. `stale` is empty if a value is
    of today's versions, else why it is stale, or unknown: `plugins` are the files that registered
    methods and data of your own. Metrics that recipes ask for beside accuracy are the last columns.
    Recipes that are called billing-* are computed for their bytes; their accuracies mean nothing.
    """
    from repfl.bench.store.store import Store

    load_plugins(plugins, grids)
    store = Store(results)
    if results is not None and not store.root.is_dir():
        raise UserError(f"results={str(results)!r}: there is no such folder")
    computed = list(_computed_cells(store, paper, scale, measured, grids))
    recipes = _named_recipes(grids) if any(each.line is None for _, each in computed) else {}
    chosen = _chosen(store, paper, scale, measured, grids) if computed else {}
    rows = [_row(each, recipes) | {"chosen": chosen.get(cell, "")} for cell, each in computed]
    _describe_unnamed(rows, computed)
    first = columns()
    beside = dict.fromkeys(name for row in rows for name in row if name not in first)
    ordered = sorted(beside, key=lambda name: "." not in name)
    frame = pd.DataFrame(rows, columns=[*first, *ordered]).set_index("id")
    frame = frame[~frame.index.duplicated()]  # an own run before a committed run
    numbers = ("accuracy", "floor", "bytes", "seconds", "wall")
    frame = frame.astype(dict.fromkeys(numbers, float))
    frame.attrs["results"] = str(store.root)
    return frame


def clients(cells: Cells, results: str | Path | None = None) -> pd.DataFrame:
    """Return how many of its own test samples each client got right in the reported round, with the
    method, recipe and seed of its cell. A warning says how many cells have no counts.
    """
    lines = _lines(cells, results)
    if without := sum(line.counts is None for line in lines):
        warnings.warn(f"{without} of {len(lines)} cells have no counts of clients", stacklevel=2)
    return _with_axes(clients_of(lines), cells, lines)


def curves(cells: Cells, results: str | Path | None = None) -> pd.DataFrame:
    """Return curves in long form, with the method, recipe and seed of their cells: name, round,
    value; of committed runs, those kept.
    """
    lines = _lines(cells, results)
    return _with_axes(curves_of(lines), cells, lines)


# -- cells -----------------------------------------------------------------------------------------


def columns() -> list[str]:
    """Return the columns that every frame of `load` has, after the id."""
    from repfl.bench.evidence import runs

    return ["id", *PLACE, *(name for name in runs.COLUMNS if name not in ("id", "metrics"))]


PLACE = ("paper", "scale", "recipe", "options", "chosen")
"""The columns that `runs.csv` has not."""


def _computed_cells(
    store: Store, paper: str | None, scale: str | None, measured: bool, own: Grids = ()
) -> Iterator[tuple[str, ComputedCell]]:
    """Yield the user's runs, then committed runs, of all papers and scales or of one. Invalid
    ones are left out with a warning.
    """
    from repfl.bench.evidence.committed.committed_runs import read
    from repfl.bench.grid import grid

    known = grid.with_own(paths(own))
    for name, chosen, valid in (("paper", paper, known), ("scale", scale, grid.SCALES)):
        if chosen is not None and chosen not in valid:
            raise unknown(name, chosen, valid)
    paper_scales = [
        (each, size)
        for each in known
        for size in reversed(grid.SCALES)
        if paper in (None, each) and scale in (None, size)
    ]
    narrowed = paper is not None or scale is not None
    files = [(known[each], size) for each, size in paper_scales]
    yield from _stored_cells(store, files if narrowed else None)
    for paper_scale in paper_scales if measured else ():
        published = read(*paper_scale)
        for problem in published.problems:
            warnings.warn(problem, stacklevel=3)
        for cell in published.cells:
            if (line := published.line(cell)) is not None:
                yield cell, ComputedCell(line.record, line, paper_scale)


def _stored_cells(
    store: Store, grids: Iterable[tuple[Path, str]] | None
) -> Iterator[tuple[str, ComputedCell]]:
    """Yield the user's runs: all, or those of the recipes of grid files at scales."""
    from repfl.bench.grid.cell import canonical

    ids = store.ids()
    recipes = _recipes_of(grids) if ids and grids is not None else None
    for cell in ids:
        try:
            record = store.whole(cell)
            if record and (recipes is None or canonical(record.cell["recipe"]) in recipes):
                yield cell, ComputedCell(record, None)
        except (Corrupt, UserError) as error:
            warnings.warn(one_line(error), stacklevel=4)


def _recipes_of(grids: Iterable[tuple[Path, str]]) -> set[str]:
    """Return the recipes of grid files at scales: a record does not name its paper."""
    from repfl.bench.grid.cell import canonical
    from repfl.bench.grid.grid import read
    from repfl.bench.grid.plan import Selection, plan

    return {
        canonical(item.cell.json["recipe"])
        for path, scale in grids
        if scale in read(path).file.scales
        for item in plan(Selection(files=[path], scale=scale))
    }


def _chosen(
    store: Store, paper: str | None, scale: str | None, measured: bool, grids: Grids
) -> dict[str, str]:
    """Return what validation chose in the searches of grid files and of a paper, by cell."""
    from repfl.bench.evidence.cell_evidence import CellEvidence, Records
    from repfl.bench.evidence.committed.committed_runs import CommittedRuns, read
    from repfl.bench.evidence.selection import choices, chosen_options
    from repfl.bench.grid import grid
    from repfl.bench.grid.plan import Selection, plan
    from repfl.paper_tables.core.evidence import chosen_text

    records, chosen = Records(store), dict[str, str]()
    selections = [(path, Selection(files=[path])) for path in paths(grids)]
    selections += [(grid.files()[paper], Selection([paper]))] if paper in grid.files() else []
    for path, selection in selections:
        file = grid.read(path).file
        if not any(block.search for each in file.artefacts.values() for block in each.cells):
            continue
        for size in {scale} & {*file.scales} if scale else file.scales:
            runs = read(paper, size) if paper and selection.papers and measured else CommittedRuns()
            tried = [item for item in plan(replace(selection, scale=size)) if item.trial]
            made = choices(tried, CellEvidence(records, runs)) if tried else ()
            options = chosen_options(made)
            chosen |= {cell: chosen_text([each]) for cell, each in options.items()}
    return chosen


RecipeNames = Mapping[str, tuple[str, str, str]]
"""Paper, scale and name of a recipe, by its canonical JSON."""


def _named_recipes(grids: Grids = ()) -> RecipeNames:
    """Return the names of the recipes of the papers' and the user's grids, the largest scale first.
    Recipes of one paper that are equal at a scale (on embedded digits) share their names.
    """
    from repfl.bench.grid import catalog
    from repfl.bench.grid.cell import canonical
    from repfl.bench.grid.grid import SCALES
    from repfl.bench.grid.recipes import recipe_values

    named: dict[str, tuple[str, str, str]] = {}
    for full, (grid, name) in catalog.recipes(paths(grids)).items():
        for scale in reversed(SCALES):
            if scale in grid.file.scales:
                values = canonical(recipe_values(grid.recipe(name, scale)))
                paper_scale = (full.partition("/")[0], scale)
                *earlier, names = named.get(values, (*paper_scale, ""))
                if tuple(earlier) == paper_scale:
                    named[values] = (*paper_scale, f"{names} | {name}" if names else name)
    for path in paths(grids):
        _add_swept(named, Path(path))
    return named


def _add_swept(named: dict[str, tuple[str, str, str]], path: Path) -> None:
    """Add the recipes that rows and columns of a grid file modify, named by their changes."""
    from repfl.bench.grid.cell import canonical
    from repfl.bench.grid.dotted_names import dotted
    from repfl.bench.grid.grid import SCALES, read
    from repfl.bench.grid.planned import cells_of
    from repfl.bench.grid.recipes import recipe_values
    from repfl.bench.grid.schema import Column

    grid = read(path)
    for scale in (each for each in reversed(SCALES) if each in grid.file.scales):
        for name, artefact in grid.file.artefacts.items():
            for item in cells_of(grid, name, artefact, scale):
                if (values := canonical(item.cell.json["recipe"])) not in named:
                    recipe = item.column.partition("[")[0]
                    base = dotted(recipe_values(grid.recipe(recipe, scale)))
                    fields = dotted(item.cell.json["recipe"]).items()
                    changed = {field: value for field, value in fields if base.get(field) != value}
                    named[values] = (grid.paper, scale, Column(recipe, changed).key)


def _describe_unnamed(
    rows: Sequence[dict[str, Any]], computed: Sequence[tuple[str, ComputedCell]]
) -> None:
    """Name recipes of no grid by the fields in which they differ from each other."""
    from repfl.bench.grid.dotted_names import dotted

    unnamed = {
        index: dotted(each.record.cell["recipe"])
        for index, (_, each) in enumerate(computed)
        if not rows[index]["recipe"]
    }
    values: dict[str, set[str]] = {}
    for fields in unnamed.values():
        for name, value in fields.items():
            values.setdefault(name, set()).add(str(value))
    for index, fields in unnamed.items():
        differing = [name for name in fields if len(values[name]) > 1]
        changes = ", ".join(f"{name} = {fields[name]}" for name in differing)
        rows[index]["recipe"] = changes or fields["dataset"]


def _row(computed: ComputedCell, recipes: RecipeNames) -> dict[str, Any]:
    from repfl.bench.evidence import runs
    from repfl.bench.grid.cell import canonical, changed_options
    from repfl.bench.grid.methods import spec
    from repfl.paper_tables.core.evidence import extra_metrics_of

    record, line = computed.record, computed.line
    if line is None:
        paper, scale, recipe = recipes.get(canonical(record.cell["recipe"]), ("", "", ""))
    else:
        (paper, scale), recipe = computed.paper_scale, line.column
    row = runs.row(record, line)
    extra = extra_metrics_of(row.pop("metrics"), record.recipe.evaluation.point)
    options = spec("", changed_options(row["method"], record.cell["hp"]))[1:-1]
    place = {"paper": paper, "scale": scale, "recipe": recipe, "options": options}
    return {**place, **row, "stale": _stale(row["stale"], record), **extra}


def _stale(reason: str, record: Record) -> str:
    """Return why a value is stale; of a method that is not loaded, that it is not known."""
    from repfl.bench.store.versions import PLUGIN

    absent = reason.startswith("there is no") or reason.endswith("is not loaded")
    if absent and PLUGIN in record.origin.versions:
        return f"unknown: {reason}; pass plugins=[...]"
    return reason


def _lines(cells: Cells, results: str | Path | None) -> list[Line]:
    """Return the lines of some cells, in their order."""
    from repfl.bench.evidence.committed.committed_run import line_of
    from repfl.bench.store.store import Store

    if isinstance(cells, pd.DataFrame):
        prefixes, results = list(map(str, cells.index)), results or cells.attrs.get("results")
    else:
        prefixes = [cells] if isinstance(cells, str) else list(cells)
    store = Store(results)
    by_id: dict[str, ComputedCell] = {}
    for cell, computed in _computed_cells(store, None, None, True):
        by_id.setdefault(cell, computed)
    chosen = [by_id[only(each, by_id)] for each in prefixes]
    return [each.line or line_of(each.record, store) for each in chosen]


def _with_axes(frame: pd.DataFrame, cells: Cells, lines: Sequence[Line]) -> pd.DataFrame:
    """Return a frame with columns for method, recipe and seed, which a frame of `load` has."""
    if isinstance(cells, pd.DataFrame) and {"method", "recipe", "seed"} <= set(cells):
        facts = cells[["method", "recipe", "seed"]]
    else:
        named = {} if all(line.column for line in lines) else _named_recipes()
        facts = pd.DataFrame.from_dict(
            {line.cell: (line.method, _recipe_of(line, named), line.record.cell["seed"])
             for line in lines},
            orient="index", columns=["method", "recipe", "seed"],
        )  # fmt: skip
    for place, name in enumerate(facts, start=1):
        frame.insert(place, name, frame["id"].map(facts[name]))
    return frame


def _recipe_of(line: Line, named: RecipeNames) -> str:
    """Return the name of a line's recipe; of a recipe of no grid, the data set."""
    from repfl.bench.grid.cell import canonical

    recipe = line.record.cell["recipe"]
    return line.column or named.get(canonical(recipe), ("", "", recipe["dataset"]))[2]


def only(prefix: str, cells: Iterable[str]) -> str:
    """Return the one id with this prefix."""
    ids = [cell for cell in cells if cell.startswith(prefix)]
    if len(ids) != 1:
        raise UserError(
            f"{len(ids) or 'no'} cells have ids that start with {prefix[:12]!r}; `repfl.load()`"
            " lists them, results=DIR says in which folder"
        )
    return ids[0]


def clients_of(lines: Sequence[Line]) -> pd.DataFrame:
    """Return the per-client counts of lines."""
    from repfl.bench.evidence.committed.committed_run import counts_frame

    frame = counts_frame((line.cell, line.counts) for line in lines)
    return frame.assign(accuracy=frame["correct"] / frame["total"].where(frame["total"] > 0))


def curves_of(lines: Sequence[Line]) -> pd.DataFrame:
    """Return the curves of lines, in long form."""
    from repfl.bench.evidence.committed.committed_run import curves_frame

    return curves_frame((line.cell, line.curves) for line in lines)
