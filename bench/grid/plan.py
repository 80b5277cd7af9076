"""Plans: the cells behind the selected artefacts, each with its place in a table or figure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from repfl.bench.errors import UserError, nearest, unknown
from repfl.bench.grid import grid as grids
from repfl.bench.grid import search
from repfl.bench.grid.cell import (
    Cell,
    build_cell,
    hyperparameters,
    options_of,
    parse_spec,
    plain,
    spec,
    unmet,
)
from repfl.bench.grid.grid import SCALES, Grid
from repfl.bench.grid.recipes import merge, nested, recipe_from
from repfl.bench.grid.schema import Artefact, Cells, GridRow

Spec = tuple[str, dict[str, Any]]
"""A method and some of its hyper-parameters."""
MAX_SHARDS = 10_000
"""More than a job array may have."""


@dataclass(frozen=True)
class Planned:
    """A cell and the place in an artefact that it is for."""

    cell: Cell
    paper: str
    artefact: str
    kind: str
    row: str
    column: str
    column_label: str
    scale: str
    skip: str = ""
    """Why the cell makes no sense; empty: it does."""
    file: Path | None = None
    """The grid file, unless it came with a paper."""
    guest: str = ""
    """The method of this cell, if its artefact has no row of it."""
    trial: int = 0
    """Its number in a search, from 1; 0: nothing is searched. Every seed is a search of its own."""
    own_command: str = ""
    """The command that computes it, if no artefact needs it."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.artefact}"

    @property
    def trial_row(self) -> str:
        """The name of the row where trials stand one by one."""
        return f"{self.row}, trial {self.trial}" if self.trial else self.row

    @property
    def command(self) -> str:
        """The command that computes this cell, and nothing else, on any machine."""
        guests = [self.guest] if self.guest else []
        return self.own_command or (
            f"repfl run --scale {self.scale} --artefact {self.key} --cell"
            f" {self.cell.short}{asked_beside(self.file, guests)}"
        )


@dataclass(frozen=True)
class Selection:
    """What a user asks for; an empty part means everything."""

    papers: Sequence[str] = ()
    artefacts: Sequence[str] = ()
    methods: Sequence[str] = ()
    datasets: Sequence[str] = ()
    columns: Sequence[str] = ()
    seeds: Sequence[int] = ()
    cells: Sequence[str] = ()
    scale: str = "smoke"
    files: Sequence[Path] = ()
    """Grid files beside the ones that come with the papers."""

    def __str__(self) -> str:
        parts = [*self.papers, *self.artefacts, *map(str, self.files)]
        return ", ".join(parts) or "the suite"


def asked_beside(file: Path | None, guests: Iterable[str]) -> str:
    """Return the further options that plan a cell: its grid file, and methods that it lacks."""
    own = "" if file is None else f" --grid {quote(str(file))}"
    return own + "".join(f" --method {quote(guest)}" for guest in guests)


def unique(planned: Iterable[Planned]) -> list[Planned]:
    """Return each cell once, at its first place: artefacts share cells."""
    first: dict[str, Planned] = {}
    for item in planned:
        first.setdefault(item.cell.id, item)
    return list(first.values())


def shard(
    planned: Sequence[Planned], text: str, cost: Callable[[Planned], float] = lambda item: 1.0
) -> list[Planned]:
    """Return the i-th of n parts of about equal cost, `i/n` with i from 1; the same on every
    machine.
    """
    part, _, parts = text.partition("/")
    digits = re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text)
    if not digits or not 1 <= int(part) <= int(parts) <= MAX_SHARDS:
        raise UserError(
            f"--shard {text!r} is not valid; valid: i/n with 1 <= i <= n <= {MAX_SHARDS:,}, such as"
            " 2/8"
        )
    loads, mine = [0.0] * int(parts), set()
    costs = [(cost(item), item.cell.id) for item in unique(planned)]
    # the longest first, each to the part that has least to do
    for load, cell in sorted(costs, key=lambda pair: (-pair[0], pair[1])):
        least = loads.index(min(loads))
        loads[least] += load
        if least == int(part) - 1:
            mine.add(cell)
    return [item for item in planned if item.cell.id in mine]


def plan(selection: Selection, *, beside: bool = False) -> list[Planned]:
    """Return all planned cells of a selection, in the order of the grids.

    Methods that no selected table has become rows of their own; if nothing else is selected,
    `beside` adds the rows that the tables have anyway.
    """
    if selection.scale not in SCALES:
        raise unknown("scale", selection.scale, SCALES)
    specs = [
        (name, options_of(hyperparameters(name, hp), hp))
        for name, hp in map(parse_spec, selection.methods)
    ]
    planned = _all_cells(selection)
    if not planned:
        raise UserError(
            f"{selection} has no cells at scale {selection.scale}; `repfl list artefacts` lists"
            " what there is"
        )
    selected = [
        item
        for item in planned
        if not specs or any(matches(item.cell, name, hp) for name, hp in specs)
    ]
    added: list[Planned] = []
    if selection.papers or selection.artefacts or selection.files:
        added = list(_extra_rows(planned, selected, specs))
    shown = planned if beside and added and not selected else selected
    if not shown + added:
        raise _nothing("--method", ", ".join(selection.methods), planned, _method, selection)
    kept = _narrow(shown + added, selection)
    return [replace(item, skip=why) if (why := unmet(item.cell)) else item for item in kept]


# -- papers and artefacts --------------------------------------------------------------------------


def _all_cells(selection: Selection) -> list[Planned]:
    """Return what the selected grids and artefacts plan at the scale."""
    own = {grids.paper_of(path): path for path in selection.files}
    if len(own) < len(set(selection.files)):
        raise UserError(
            f"--grid {', '.join(map(str, selection.files))}: two files have the same name, which"
            " their artefacts are called by"
        )
    files = grids.files() | own
    papers = grids.named(selection.papers, files)
    wanted: dict[str, list[str]] = {}
    for key in selection.artefacts:
        paper, _, name = key.partition("/")
        if not name:
            raise UserError(
                f"artefact {key!r} is not of the form paper/name; valid papers: {', '.join(files)}"
            )
        if (paper := paper.replace("_", "-")) not in files:
            raise unknown("paper", paper, files, f"artefact {key!r}")
        wanted.setdefault(paper, []).append(name)
    chosen = {*papers, *wanted} or own or files
    return [
        item
        for paper, path in files.items()
        if paper in chosen
        for item in _artefacts(grids.read(path), wanted.get(paper, []), selection.scale)
    ]


def _artefacts(grid: Grid, wanted: Sequence[str], scale: str) -> Iterator[Planned]:
    """Yield the planned cells of some artefacts of a grid, or of all."""
    known = grid.file.artefacts
    for name in wanted:
        if name not in known:
            options = [f"{grid.paper}/{each}" for each in known]
            raise unknown("artefact", f"{grid.paper}/{name}", options)
    if scale in grid.file.scales:
        blocks: dict[str, list[Planned]] = {}
        for name, artefact in known.items():
            if not wanted or name in wanted:
                yield from cells_of(grid, name, artefact, scale, blocks)


def cells_of(
    grid: Grid,
    name: str,
    artefact: Artefact,
    scale: str,
    blocks: dict[str, list[Planned]] | None = None,
) -> Iterator[Planned]:
    """Yield the planned cells of one artefact at one scale; `blocks` are those planned already,
    which artefacts that are like others share.
    """
    blocks = {} if blocks is None else blocks
    for cells in grid.cells(name, scale):
        key = repr((cells.at, cells.rows, cells.columns))
        if key not in blocks:
            blocks[key] = list(_of_block(grid, (name, artefact.kind), scale, cells))
        for item in blocks[key]:
            own = item.artefact == name
            yield item if own else replace(item, artefact=name, kind=artefact.kind)


def _of_block(
    grid: Grid, artefact: tuple[str, str], scale: str, cells: Cells, guest: str = ""
) -> Iterator[Planned]:
    """Yield the planned cells of one block of an artefact, which has a name and a kind."""
    rules, block = grid.file.scales[scale], cells.block
    file = None if grid.path in grids.files().values() else grid.path
    for row, column in product(cells.rows, cells.columns):
        scaled = rules.methods.get(row.method, {})
        # a block for one scale alone says what it needs there
        hp = scaled | row.hp if block.scales == [scale] else row.hp | scaled
        fields = merge(nested(column.fields), row.recipe)
        space = {}
        if block.search:
            place = grid.at(*cells.at, "search")
            space = search.space_of(row.method, block.search.ranges, row.hp, place)
        for seed in block.seeds if block.seeds is not None else rules.seeds:
            for trial in search.trials(space, block.search.trials if block.search else 0, seed):
                drawn = merge(fields, nested(trial.fields))
                recipe = grid.recipe(column.recipe, scale, block.evaluation, drawn, cells.at)
                try:
                    cell = build_cell(row.method, {**hp, **trial.hp}, recipe, seed)
                except UserError as error:
                    place = grid.at(*cells.at, "rows", hints=(row.label,))
                    raise UserError(
                        f"{place}: row {row.label!r}, recipe {column.recipe!r}: {error}"
                    ) from None
                yield Planned(
                    cell,
                    grid.paper,
                    *artefact,
                    row.label,
                    column.key,
                    column.label(grid.label(column.recipe)),
                    scale,
                    file=file,
                    guest=guest,
                    trial=trial.number,
                )


# -- methods that a table lacks --------------------------------------------------------------------


def _extra_rows(
    planned: Sequence[Planned], selected: Sequence[Planned], specs: Sequence[Spec]
) -> Iterator[Planned]:
    """Yield rows for methods that the selected artefacts lack: how a new method meets a paper's
    table.
    """
    tables = [item for item in planned if item.kind == "table"]
    for name, hp in specs:
        if any(matches(item.cell, name, hp) for item in selected):
            continue
        label = spec(name, hp)
        places = {(i.key, i.column, i.cell.seed): i for i in tables if not i.trial}
        for item in places.values():
            place = f"{item.key}, {item.column}"
            cell = build_cell(name, hp, recipe_from(item.cell.recipe, place), item.cell.seed)
            yield replace(item, cell=cell, row=label + _ending(item, planned), guest=label)
        for item in {item.key: item for item in tables if item.trial}.values():
            yield from _searched(item, GridRow(label=label, method=name, hp=hp))


def _searched(beside: Planned, row: GridRow) -> Iterator[Planned]:
    """Yield a further row of a table whose rows are searched, with as many trials as the others."""
    grid = grids.read(beside.file or grids.files()[beside.paper])
    seen = set[str]()
    for cells in grid.cells(beside.artefact, beside.scale):
        columns = tuple(column for column in cells.columns if column.key not in seen)
        if cells.block.search is None or not columns:
            continue  # further blocks search what only their own rows have
        seen |= {column.key for column in columns}
        own = replace(cells, rows=(row,), columns=columns)
        yield from _of_block(grid, (beside.artefact, beside.kind), beside.scale, own, row.label)


def _ending(item: Planned, planned: Sequence[Planned]) -> str:
    """Return what unsearched rows have behind the name of the searched row beside them, such as
    `, as printed`; empty if nothing is searched.
    """
    searched = {each.row for each in planned if each.trial and each.key == item.key}
    ends = [item.row.removeprefix(row) for row in searched if item.row.startswith(row)]
    return min(ends, key=len, default="")


def matches(cell: Cell, name: str, hp: Mapping[str, Any]) -> bool:
    """Return whether a cell is of a method with these options."""
    if cell.method != name:
        return False
    defaults = options_of(hyperparameters(name, {}), hp.keys() - cell.hp.keys())
    values = defaults | dict(cell.hp)
    return all(plain(values[key]) == plain(value) for key, value in hp.items())


# -- selectors -------------------------------------------------------------------------------------

Names = Callable[[Planned], Sequence[str]]
"""What a planned cell answers to in a selector."""


def _method(item: Planned) -> Sequence[str]:
    return [item.cell.method]


def _columns(item: Planned) -> Sequence[str]:
    return [item.column, item.column_label, item.column.partition("[")[0]]


def _narrow(items: list[Planned], selection: Selection) -> list[Planned]:
    """Apply the remaining selectors one after another; the one that leaves nothing is named, with
    what there is, here or at other scales.
    """
    selectors: list[tuple[str, Sequence[Any], Names]] = [
        ("--dataset", selection.datasets, lambda item: [item.cell.recipe["dataset"]]),
        ("--column", selection.columns, _columns),
        ("--seed", selection.seeds, lambda item: [str(item.cell.seed)]),
    ]
    for option, values, names in selectors:
        chosen = set(map(str, values))
        for value in values:
            if not any(str(value) in names(item) for item in items):
                raise _nothing(option, str(value), items, names, selection)
        items = [item for item in items if not chosen or chosen.intersection(names(item))]
    for prefix in selection.cells:
        if not any(item.cell.id.startswith(prefix) for item in items):
            raise UserError(
                f"--cell {prefix}: no selected cell has an id that starts so;"
                " `repfl plan --json` lists them"
            )
    cells = tuple(selection.cells)
    return [item for item in items if not cells or item.cell.id.startswith(cells)]


def _nothing(
    option: str, value: str, items: Iterable[Planned], names: Names, selection: Selection
) -> UserError:
    scales = {scale: _all_cells(replace(selection, scale=scale)) for scale in SCALES}
    elsewhere = {scale: {name for i in its for name in names(i)} for scale, its in scales.items()}
    here = {name for item in items for name in names(item)}
    hint = nearest(value, here)
    (near, *_) = get_close_matches(value.lower(), here.union(*elsewhere.values()), n=1) or [""]
    if near and near not in here:
        add = " or ".join(f"--scale {scale}" for scale, has in elsewhere.items() if near in has)
        hint = f"add {add}" if near == value else f"did you mean {near}, with {add}?"
    return UserError(
        f"{option} {value}: no cell of {selection} at scale {selection.scale} has it; {hint}"
    )
