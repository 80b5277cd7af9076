"""What has been computed, as data frames: own runs, and the values published with this code."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import pandas as pd

from repfl.bench.errors import Corrupt, UserError, one_line, unknown
from repfl.catalog import Grids, Plugins, load_plugins, paths

if TYPE_CHECKING:
    from repfl.bench.evidence.committed.committed_run import Line
    from repfl.bench.store.store import Record, Store
    from repfl.bench.store.versions import Currency

Cells: TypeAlias = "pd.DataFrame | str | Iterable[str]"
"""Rows of `load`, an id, or several ids; an id may be cut short."""


class ComputedCell(NamedTuple):
    """A cell that somebody has computed."""

    record: Record
    line: Line | None
    """The published line; None: it is a run of one's own."""
    place: tuple[str, str] = ("", "")
    """Paper and scale of a published line."""
    tier: str = ""


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
    published values and the runs of recipes that its grid has there, whatever their method.

    `accuracy` and `floor` are shares of 1, `bytes` those of all messages of a run. `options` are
    the hyper-parameters that are not the method's defaults. `recipe` is named as in the papers'
    grids and in `grids`, files of your own, with what a sweep changes in brackets; of a recipe that
    stands in none, it says how it differs from the others. `source` is "store" or "measured";
    `tier` is the evidence for a published value. `standing` is "current" if a value is of today's
    versions, else why it is stale, or unknown: `plugins` are the files that registered methods and
    data of your own. Metrics that recipes ask for beside accuracy are further columns, of the last
    round. Recipes that are called billing-* are computed for their bytes; their accuracies mean
    nothing.
    """
    from repfl.bench.store.store import Store

    load_plugins(plugins)
    store = Store(results)
    if results is not None and not store.root.is_dir():
        raise UserError(f"results={str(results)!r}: there is no such folder")
    found = list(_found(store, paper, scale, measured))
    recipes = _named_recipes(grids) if any(each.line is None for _, each in found) else {}
    rows = [_row(cell, each, recipes) for cell, each in found]
    _describe_unnamed(rows, found)
    beside = sorted({name for row in rows for name in row.keys() - {"id", *COLUMNS}})
    frame = pd.DataFrame(rows, columns=["id", *COLUMNS, *beside]).set_index("id")
    frame = frame[~frame.index.duplicated()]  # an own run before a published value
    frame = frame.astype(dict.fromkeys(("accuracy", "floor", "bytes", "seconds"), float))
    frame.attrs["results"] = str(store.root)
    return frame


def clients(cells: Cells, results: str | Path | None = None) -> pd.DataFrame:
    """Return how many of its own test samples each client got right in the reported round."""
    return clients_of(_lines(cells, results))


def curves(cells: Cells, results: str | Path | None = None) -> pd.DataFrame:
    """Return curves in long form: id, name, round, value; of published values, those kept."""
    return curves_of(_lines(cells, results))


# -- cells -----------------------------------------------------------------------------------------


COLUMNS = (
    "method", "options", "dataset", "model", "clients", "rounds", "seed", "status", "accuracy",
    "floor", "bytes", "source", "paper", "scale", "recipe", "tier", "standing", "seconds", "device",
    "contributor", "commit", "finished", "reason",
)  # fmt: skip


def _found(
    store: Store, paper: str | None, scale: str | None, measured: bool
) -> Iterator[tuple[str, ComputedCell]]:
    """Yield own runs, then published values, of all papers and scales or of one. What cannot be
    trusted is left out with a warning.
    """
    from repfl.bench.evidence.committed.agreement import tiers
    from repfl.bench.evidence.committed.committed_runs import read
    from repfl.bench.grid import grid

    for name, chosen, known in (("paper", paper, grid.files()), ("scale", scale, grid.SCALES)):
        if chosen is not None and chosen not in known:
            raise unknown(name, chosen, known)
    places = [
        (each, size)
        for each in grid.files()
        for size in reversed(grid.SCALES)
        if paper in (None, each) and scale in (None, size)
    ]
    narrowed = paper is not None or scale is not None
    yield from _stored(store, places if narrowed else None)
    for place in places if measured else ():
        lines = read(*place)
        for problem in lines.problems:
            warnings.warn(problem, stacklevel=3)
        tier = tiers(lines)
        for cell in lines.cells:
            if (line := lines.line(cell)) is not None:
                yield cell, ComputedCell(line.record, line, place, tier[cell])


def _stored(
    store: Store, places: Iterable[tuple[str, str]] | None
) -> Iterator[tuple[str, ComputedCell]]:
    """Yield own runs: all, or those of the recipes of papers at scales."""
    from repfl.bench.grid.cell import canonical

    ids = store.ids()
    recipes = _recipes(places) if ids and places is not None else None
    for cell in ids:
        try:
            if (record := store.get(cell)) is not None:
                store.verify(record)
                if recipes is None or canonical(record.cell["recipe"]) in recipes:
                    yield cell, ComputedCell(record, None)
        except (Corrupt, UserError) as error:
            warnings.warn(one_line(error), stacklevel=4)


def _recipes(places: Iterable[tuple[str, str]]) -> set[str]:
    """Return the recipes of papers at scales: a record does not name its paper."""
    from repfl.bench.grid.cell import canonical
    from repfl.bench.grid.grid import files, read
    from repfl.bench.grid.plan import Selection, plan

    return {
        canonical(item.cell.recipe)
        for paper, scale in places
        if scale in read(files()[paper]).file.scales
        for item in plan(Selection(papers=[paper], scale=scale))
    }


Places = Mapping[str, tuple[str, str, str]]
"""Paper, scale and name of a recipe, by its canonical JSON."""


def _named_recipes(grids: Grids = ()) -> Places:
    """Return where the recipes of the papers' grids and of one's own stand, the largest scale
    first. Recipes of one paper that are equal at a scale (on embedded digits) share their names.
    """
    from repfl.bench.grid import catalog
    from repfl.bench.grid.cell import canonical
    from repfl.bench.grid.grid import SCALES
    from repfl.bench.grid.recipes import recipe_values

    found: dict[str, tuple[str, str, str]] = {}
    for full, (grid, name) in catalog.recipes(paths(grids)).items():
        for scale in reversed(SCALES):
            if scale in grid.file.scales:
                values = canonical(recipe_values(grid.recipe(name, scale)))
                place = (full.partition("/")[0], scale)
                *known, names = found.get(values, (*place, ""))
                if tuple(known) == place:
                    found[values] = (*place, f"{names} | {name}" if names else name)
    for path in paths(grids):
        _add_swept(found, Path(path))
    return found


def _add_swept(found: dict[str, tuple[str, str, str]], path: Path) -> None:
    """Add what rows and columns of a grid file make of its recipes, named by what they change."""
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
                if (values := canonical(item.cell.recipe)) not in found:
                    recipe = item.column.partition("[")[0]
                    base = dotted(recipe_values(grid.recipe(recipe, scale)))
                    fields = dotted(item.cell.recipe).items()
                    changed = {field: value for field, value in fields if base.get(field) != value}
                    found[values] = (grid.paper, scale, Column(recipe, changed).key)


def _describe_unnamed(
    rows: Sequence[dict[str, Any]], found: Sequence[tuple[str, ComputedCell]]
) -> None:
    """Call recipes that stand in no grid by the fields in which they differ from each other."""
    from repfl.bench.grid.dotted_names import dotted

    unnamed = {
        index: dotted(each.record.cell["recipe"])
        for index, (_, each) in enumerate(found)
        if not rows[index]["recipe"]
    }
    values: dict[str, set[str]] = {}
    for fields in unnamed.values():
        for name, value in fields.items():
            values.setdefault(name, set()).add(str(value))
    for index, fields in unnamed.items():
        differing = [name for name in fields if len(values[name]) > 1]
        told = ", ".join(f"{name} = {fields[name]}" for name in differing)
        rows[index]["recipe"] = told or fields["dataset"]


def _row(cell: str, found: ComputedCell, recipes: Places) -> dict[str, Any]:
    from repfl.bench.grid.cell import canonical
    from repfl.bench.store import versions
    from repfl.paper_tables.core.evidence import beside_accuracy

    record, line = found.record, found.line
    made, metrics = record.provenance, record.metrics
    if line is None:
        standing = versions.of_record(made, record.cell)
        paper, scale, recipe = recipes.get(canonical(record.cell["recipe"]), ("", "", ""))
    else:
        standing, recipe = line.currency, line.column
        paper, scale = found.place
    axes = _axes(record.cell)
    average = record.cell["recipe"]["evaluation"]["average"]
    return {
        "id": cell,
        **axes,
        "options": _options(axes["method"], record.cell["hp"]),
        "status": record.status,
        "accuracy": metrics.get("value"),
        "floor": metrics.get("floor", {}).get(average),
        "bytes": sum(metrics["traffic"].values()) if "traffic" in metrics else None,
        "source": "store" if line is None else "measured",
        "paper": paper,
        "scale": scale,
        "recipe": recipe,
        "tier": found.tier,
        "standing": _standing(standing, made),
        "seconds": (made.get("seconds") or {}).get("wall"),
        "device": (made.get("platform") or {}).get("device"),
        "contributor": made.get("contributor") or "",
        "commit": str(made.get("commit") or "")[:12],
        "finished": made.get("finished"),
        "reason": record.reason,
        **beside_accuracy(metrics, record.cell["recipe"]["evaluation"]["point"]),
    }


def _standing(found: Currency, made: Mapping[str, Any]) -> str:
    """Return whether a value is of today's versions, in words."""
    from repfl.bench.store.versions import PLUGIN

    if found.current:
        return "current"
    absent = found.reason.startswith("there is no") or found.reason.endswith("is not loaded")
    if PLUGIN in (made.get("versions") or {}) and absent:
        return f"unknown: {found.reason}; pass plugins=[...]"
    return f"stale: {found.reason}"


def _axes(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a cell that have columns of their own."""
    recipe = cell["recipe"]
    return {
        **{name: cell[name] for name in ("method", "seed")},
        **{name: recipe[name] for name in ("dataset", "model", "clients")},
        "rounds": recipe["training"]["rounds"],
    }


def _options(method: str, hp: Mapping[str, Any]) -> str:
    """Return the hyper-parameters that differ from the method's defaults; all, if it is unknown."""
    from repfl.bench.grid.cell import plain
    from repfl.bench.grid.methods import hyperparameters, options_of, spec

    try:
        defaults = plain(options_of(hyperparameters(method, {}), hp))
    except (UserError, KeyError):
        defaults = {}  # of a plug-in that is not loaded
    own = {
        name: value for name, value in hp.items() if (name, plain(value)) not in defaults.items()
    }
    return spec("", own)[1:-1]


def _lines(cells: Cells, results: str | Path | None) -> list[Line]:
    """Return the lines of some cells, in their order."""
    from repfl.bench.evidence.committed.committed_run import line_of
    from repfl.bench.store.store import Store

    if isinstance(cells, pd.DataFrame):
        wanted, results = list(map(str, cells.index)), results or cells.attrs.get("results")
    else:
        wanted = [cells] if isinstance(cells, str) else list(cells)
    store = Store(results)
    known: dict[str, ComputedCell] = {}
    for cell, found in _found(store, None, None, True):
        known.setdefault(cell, found)
    chosen = [known[only(each, known)] for each in wanted]
    return [each.line or line_of(each.record, store) for each in chosen]


def only(prefix: str, known: Iterable[str]) -> str:
    """Return the one id that starts so."""
    ids = [cell for cell in known if cell.startswith(prefix)]
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
