"""Plans: the cells that a user's selection contains."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from repfl.bench.errors import UserError, nearest, unknown
from repfl.bench.grid import grid as grids
from repfl.bench.grid import plugins
from repfl.bench.grid.cell import Cell, build_cell, canonical, plain, unmet
from repfl.bench.grid.grid import SCALES, Grid
from repfl.bench.grid.methods import (
    entry,
    hyperparameters,
    options_of,
    parse_spec,
    spec,
    with_defaults,
)
from repfl.bench.grid.planned import Planned, cells_of, of_block, unique
from repfl.bench.grid.schema import GridRow
from repfl.datasets.core.errors import hyphened, registered

Spec = tuple[str, dict[str, Any]]
"""A method and some of its hyper-parameters."""
MAX_SHARDS = 10_000
"""Larger than any job array."""
MAX_SHOWN = 40
"""Characters of a wrong value that a message repeats."""


@dataclass(frozen=True)
class Selection:
    """What a user selects; an empty field selects everything."""

    papers: Sequence[str] = ()
    artefacts: Sequence[str] = ()
    methods: Sequence[str] = ()
    datasets: Sequence[str] = ()
    columns: Sequence[str] = ()
    seeds: Sequence[int] = ()
    cells: Sequence[str] = ()
    scale: str = "smoke"
    files: Sequence[Path] = ()
    """Grid files in addition to those of the papers."""

    def __str__(self) -> str:
        parts = [*self.papers, *self.artefacts, *map(str, self.files)]
        return ", ".join(parts) or "the suite"


def shard(
    planned: Sequence[Planned], text: str, cost: Callable[[Planned], float] = lambda item: 1.0
) -> list[Planned]:
    """Return the i-th of n parts of about equal cost, `i/n` with i from 1; every machine computes
    the same parts.
    """
    part, _, parts = text.partition("/")
    digits = re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text)
    if not digits or not 1 <= int(part) <= int(parts) <= MAX_SHARDS:
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."
        raise UserError(
            f"--shard {shown!r} is not valid; valid: i/n with 1 <= i <= n <= {MAX_SHARDS:,}, such"
            " as 2/8"
        )
    loads, chosen = [0.0] * int(parts), set()
    costs = [(cost(item), item.cell.id) for item in unique(planned)]
    # the longest first, each to the part with the smallest load
    for load, cell in sorted(costs, key=lambda pair: (-pair[0], pair[1])):
        smallest = loads.index(min(loads))
        loads[smallest] += load
        if smallest == int(part) - 1:
            chosen.add(cell)
    return [item for item in planned if item.cell.id in chosen]


def plan(selection: Selection, *, beside: bool = False) -> list[Planned]:
    """Return all planned cells of a selection, in the order of the grids.

    Methods that are in no selected table become additional rows; if no row is selected otherwise,
    `beside` also adds the existing rows of the tables.
    """
    if selection.scale not in SCALES:
        raise unknown("scale", selection.scale, SCALES)
    specs = [_spec(text) for text in selection.methods]
    planned = _all_cells(selection)
    if not planned:
        raise UserError(
            f"{selection} has no cells at scale {selection.scale}; `repfl list artefacts` lists"
            " what there is"
        )
    selected = [item for item in planned if not specs or _matches_any(item.cell, specs)]
    added: list[Planned] = []
    if selection.papers or selection.artefacts or selection.files:
        added = list(_extra_rows(planned, selected, specs))
    existing = planned if beside and added and not selected else selected
    if not existing + added:
        raise _no_match("--method", ", ".join(selection.methods), planned, _method, selection)
    items = _narrow(existing + added, selection)
    return [replace(item, skip=why) if (why := unmet(item.cell)) else item for item in items]


# -- papers and artefacts --------------------------------------------------------------------------


def _all_cells(selection: Selection) -> list[Planned]:
    """Return the planned cells of the selected grids and artefacts at the scale."""
    user_files = {grids.paper_of(path): path for path in selection.files}
    if len(user_files) < len(set(selection.files)):
        raise UserError(
            f"grid {', '.join(map(str, selection.files))}: two files have the same name, which"
            " their artefacts are called by"
        )
    files = grids.files() | user_files
    papers = grids.named(selection.papers, files)
    requested: dict[str, list[str]] = {}
    for key in selection.artefacts:
        paper, _, name = key.partition("/")
        if not name:
            raise UserError(
                f"artefact {key!r} is not of the form paper/name; valid papers: {', '.join(files)}"
            )
        if (paper := paper.replace("_", "-")) not in files:
            raise unknown("paper", paper, files, f"artefact {key!r}")
        requested.setdefault(paper, []).append(name)
    chosen = {*papers, *requested} or user_files or files
    return [
        item
        for paper, path in files.items()
        if paper in chosen
        for item in _artefacts(grids.read(path), requested.get(paper, []), selection.scale)
    ]


def _artefacts(grid: Grid, requested: Sequence[str], scale: str) -> Iterator[Planned]:
    """Yield the planned cells of some artefacts of a grid, or of all."""
    artefacts = grid.file.artefacts
    requested = [registered(name, artefacts) for name in requested]
    for name in requested:
        if name not in artefacts:
            options = [f"{grid.paper}/{each}" for each in artefacts]
            raise unknown("artefact", f"{grid.paper}/{name}", options)
    if scale in grid.file.scales:
        blocks: dict[str, list[Planned]] = {}
        for name, artefact in artefacts.items():
            if not requested or name in requested:
                yield from cells_of(grid, name, artefact, scale, blocks)


# -- methods that a table lacks --------------------------------------------------------------------


def _extra_rows(
    planned: Sequence[Planned], selected: Sequence[Planned], specs: Sequence[Spec]
) -> Iterator[Planned]:
    """Yield rows for methods that the selected artefacts lack: a new method joins a paper's
    table.
    """
    tables = [item for item in planned if item.kind == "table"]
    for name, hp in specs:
        if any(matches(item.cell, name, hp) for item in selected):
            continue
        guest, row = spec(name, hp), spec(entry(name).title, hp)
        for item in _common_settings([item for item in tables if not item.trial]):
            location = f"{item.key}, {item.column}"
            cell = build_cell(name, hp, item.cell.recipe, item.cell.seed, location)
            yield replace(item, cell=cell, row=row + _ending(item, planned), guest=guest)
        for item in {item.key: item for item in tables if item.trial}.values():
            yield from _searched(item, GridRow(label=row, method=name, hp=hp), guest)


def _common_settings(tables: Sequence[Planned]) -> Iterator[Planned]:
    """Yield for every column and seed of a table a cell with the recipe that most rows share; of
    several such recipes the first.
    """
    places: defaultdict[tuple[str, str, int], list[Planned]] = defaultdict(list)
    for item in tables:
        places[item.key, item.column, item.cell.seed].append(item)
    for items in places.values():
        recipes = [canonical(item.cell.json["recipe"]) for item in items]
        (most, _), *_ = Counter(recipes).most_common(1)
        yield items[recipes.index(most)]


def _searched(beside: Planned, row: GridRow, guest: str) -> Iterator[Planned]:
    """Yield a further row of a searched table, with as many trials as the other rows."""
    grid = grids.read(beside.file or grids.files()[beside.paper])
    seen = set[str]()
    for cells in grid.cells(beside.artefact, beside.scale):
        columns = tuple(column for column in cells.columns if column.key not in seen)
        if cells.block.search is None or not columns:
            continue  # further blocks search what only their own rows have
        seen |= {column.key for column in columns}
        guest_cells = replace(cells, rows=(row,), columns=columns)
        yield from of_block(grid, (beside.artefact, beside.kind), beside.scale, guest_cells, guest)


def _ending(item: Planned, planned: Sequence[Planned]) -> str:
    """Return the suffix of unsearched rows, such as `, as printed`, compared with the name of the
    searched row; empty if nothing is searched.
    """
    searched = {each.row for each in planned if each.trial and each.key == item.key}
    ends = [item.row.removeprefix(row) for row in searched if item.row.startswith(row)]
    return min(ends, key=len, default="")


def _spec(text: str) -> Spec:
    """Return a method, and the validated options that a selector gives of it."""
    name, hp = parse_spec(text)
    return name, options_of(hyperparameters(name, hp), hp)


def _matches_any(cell: Cell, specs: Sequence[Spec]) -> bool:
    return any(matches(cell, name, hp) for name, hp in specs)


def matches(cell: Cell, name: str, hp: Mapping[str, Any]) -> bool:
    """Return whether a cell is of a method with these options."""
    if cell.method != name:
        return False
    values = with_defaults(cell.hp)
    return all(plain(values[key]) == plain(value) for key, value in hp.items())


# -- selectors -------------------------------------------------------------------------------------

Names = Callable[[Planned], Sequence[str]]
"""The names by which a selector finds a planned cell."""


def _method(item: Planned) -> Sequence[str]:
    return [item.cell.method]


def _columns(item: Planned) -> Sequence[str]:
    return [item.column, item.column_label, item.column.partition("[")[0]]


def _narrow(items: list[Planned], selection: Selection) -> list[Planned]:
    """Apply the remaining selectors one by one. A selector without a match raises an error that
    names the valid values, here or at other scales.
    """
    selectors: list[tuple[str, Sequence[Any], Names]] = [
        ("--dataset", selection.datasets, lambda item: [item.cell.recipe.dataset]),
        ("--column", selection.columns, _columns),
        ("--seed", selection.seeds, lambda item: [str(item.cell.seed)]),
    ]
    for option, values, names in selectors:
        named = [{*map(hyphened, names(item))} for item in items]
        chosen = {hyphened(str(value)) for value in values}
        for value in values:
            if not any(hyphened(str(value)) in each for each in named):
                raise _no_match(option, str(value), items, names, selection)
        pairs = zip(items, named, strict=True)
        items = [item for item, each in pairs if not chosen or chosen & each]
    return _with_ids(items, selection)


def _with_ids(items: list[Planned], selection: Selection) -> list[Planned]:
    """Return the cells whose ids start as the selection says; all if it says nothing. One without
    a match raises an error that names the scales that have it.
    """
    for prefix in selection.cells:
        if not any(item.cell.id.startswith(prefix) for item in items):
            others = (replace(selection, scale=scale) for scale in SCALES)
            scales = [other.scale for other in others if _has_cell(other, prefix)]
            where = (
                f"use --scale {' or '.join(scales)}" if scales else "`repfl plan --json` lists ids"
            )
            raise UserError(
                f"--cell {prefix}: no cell of scale {selection.scale} has such an id; {where}"
            )
    cells = tuple(selection.cells)
    return [item for item in items if not cells or item.cell.id.startswith(cells)]


def _has_cell(selection: Selection, prefix: str) -> bool:
    return any(item.cell.id.startswith(prefix) for item in _all_cells(selection))


def _no_match(
    option: str, value: str, items: Iterable[Planned], names: Names, selection: Selection
) -> UserError:
    if option == "--method" and value.partition("[")[0] in plugins.registries()["method"]:
        raise UserError(
            f"{option} {value}: is in no table of {selection} at scale {selection.scale}; name the"
            " table that it joins, --artefact PAPER/NAME"
        )
    scales = {scale: _all_cells(replace(selection, scale=scale)) for scale in SCALES}
    elsewhere = {scale: {name for i in its for name in names(i)} for scale, its in scales.items()}
    here = {name for item in items for name in names(item)}
    hint = nearest(value, here)
    (near, *_) = get_close_matches(value.lower(), here.union(*elsewhere.values()), n=1) or [""]
    if near and near not in here:
        add = " or ".join(f"--scale {scale}" for scale, has in elsewhere.items() if near in has)
        hint = f"add {add}" if near == value else f"did you mean {near}, with {add}?"
    own = "; other seeds: a grid of your own, `repfl new grid NAME`" * (option == "--seed")
    return UserError(
        f"{option} {value}: no cell of {selection} at scale {selection.scale} has it; {hint}{own}"
    )
