"""Plans: the cells behind the selected artefacts, each with the place in a table it is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from shlex import quote
from typing import Any

from repfl.bench.cells import grid as grids
from repfl.bench.cells import search
from repfl.bench.cells.cell import (
    Cell,
    build_cell,
    hyperparameters,
    options_of,
    parse_spec,
    plain,
    recipe_from,
    spec,
    unmet,
)
from repfl.bench.cells.grid import SCALES, Grid
from repfl.bench.cells.schema import Artefact, Cells, GridRow, merge, nested
from repfl.bench.cells.search import ALONE, Trial
from repfl.bench.errors import UserError, nearest, unknown

SHARDS = 10_000
"""Parts that a plan is cut into at most; more than a job array may have."""


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
    """The grid file, where it is none that came with a paper."""
    guest: str = ""
    """The method that this cell is of, where its artefact has no row of it."""

    trial: int = 0
    """Its number in a search, from 1; 0: nothing is searched. Every seed is a search of its own."""
    said: str = ""
    """The command that computes it, where no artefact has asked for it."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.artefact}"

    @property
    def told(self) -> str:
        """What the row is called where trials stand one by one."""
        return f"{self.row}, trial {self.trial}" if self.trial else self.row

    @property
    def command(self) -> str:
        """What computes this cell, and nothing else, on any machine."""
        guests = [self.guest] if self.guest else []
        return self.said or (
            f"repfl run --scale {self.scale} --artefact {self.key} --cell"
            f" {self.cell.short}{asked_beside(self.file, guests)}"
        )


def asked_beside(file: Path | None, guests: Iterable[str]) -> str:
    """What else must be said to have cells planned: their grid file, methods that it has not."""
    own = "" if file is None else f" --grid {quote(str(file))}"
    return own + "".join(f" --method {quote(guest)}" for guest in guests)


@dataclass(frozen=True)
class Selection:
    """What a user asks for; an empty part means everything."""

    papers: Sequence[str] = ()
    artefacts: Sequence[str] = ()
    methods: Sequence[str] = ()
    datasets: Sequence[str] = ()
    seeds: Sequence[int] = ()
    cells: Sequence[str] = ()
    scale: str = "smoke"
    files: Sequence[Path] = field(default=())
    """Grid files beside the ones that come with the papers."""


def plan(selection: Selection, *, beside: bool = False) -> list[Planned]:
    """All planned cells of a selection, in the order of the grids.

    Methods that no selected table has become rows of their own; where they are all that is asked
    for, `beside` adds the rows that the tables have anyway.
    """
    if selection.scale not in SCALES:
        raise unknown("scale", selection.scale, SCALES)
    specs = [
        (name, options_of(hyperparameters(name, hp), hp))
        for name, hp in map(parse_spec, selection.methods)
    ]
    planned = [item for grid in _grids(selection) for item in _artefacts(grid, selection)]
    if not planned:
        raise UserError(
            f"{_asked(selection)} has no cells at scale {selection.scale}; `repfl artefacts` lists"
            " what there is"
        )
    found = [item for item in planned if _wanted(item, specs)]
    added = (
        list(_extra_rows(planned, found, specs))
        if selection.papers or selection.artefacts or selection.files
        else []
    )
    shown = planned if beside and added and not found else found
    kept = _narrow(shown + added, planned, selection)
    return [replace(item, skip=why) if (why := unmet(item.cell)) else item for item in kept]


def _asked(selection: Selection) -> str:
    return (
        ", ".join([*selection.papers, *selection.artefacts, *map(str, selection.files)])
        or "the suite"
    )


# -- papers and artefacts --------------------------------------------------------------------------


def _grids(selection: Selection) -> Iterator[Grid]:
    """The grid files that a selection touches; the others are not even opened."""
    own = {grids.paper_of(path): path for path in selection.files}
    if len(own) < len(set(selection.files)):
        raise UserError(
            f"--grid {', '.join(map(str, selection.files))}: two files have the same name, which"
            " their artefacts are called by"
        )
    known = grids.files() | own
    papers = [name.replace("_", "-") for name in selection.papers]
    for name in papers:
        if name not in known:
            raise unknown("paper", name, known)
    for key in selection.artefacts:
        paper, slash, name = key.partition("/")
        if not slash or not name:
            raise UserError(
                f"artefact {key!r} is not of the form paper/name; valid papers: {', '.join(known)}"
            )
        if paper.replace("_", "-") not in known:
            raise unknown("paper", paper, known, f"artefact {key!r}")
        papers.append(paper.replace("_", "-"))
    if selection.files and not papers:
        papers = list(own)
    for name in known:
        if not papers or name in papers:
            yield grids.read(known[name])


def _artefacts(grid: Grid, selection: Selection) -> Iterator[Planned]:
    """The planned cells of one grid."""
    asked = [
        key.partition("/")[2]
        for key in selection.artefacts
        if key.partition("/")[0].replace("_", "-") == grid.paper
    ]
    for name in asked:
        if name not in grid.file.artefacts:
            raise unknown(
                "artefact",
                f"{grid.paper}/{name}",
                [f"{grid.paper}/{known}" for known in grid.file.artefacts],
            )
    whole = not asked and (
        not selection.artefacts
        or grid.paper in [name.replace("_", "-") for name in selection.papers]
    )
    if selection.scale not in grid.file.scales:
        return
    blocks: dict[str, list[Planned]] = {}
    for name, artefact in grid.file.artefacts.items():
        if whole or name in asked:
            yield from cells_of(grid, name, artefact, selection.scale, blocks)


def cells_of(
    grid: Grid,
    name: str,
    artefact: Artefact,
    scale: str,
    blocks: dict[str, list[Planned]] | None = None,
) -> Iterator[Planned]:
    """The planned cells of one artefact at one scale; `blocks` are those planned already, which
    artefacts that are like others share.
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
    """The planned cells of one block of an artefact, which has a name and a kind."""
    rules = grid.file.scales[scale]
    file = None if grid.path in grids.files().values() else grid.path
    seeds = cells.block.seeds if cells.block.seeds is not None else rules.seeds
    for row, column in product(cells.rows, cells.columns):
        scaled = rules.methods.get(row.method, {})
        hp = (
            scaled | row.hp if cells.block.scales == [scale] else row.hp | scaled
        )  # a block for one scale says what it wants there
        fields = merge(nested(column.fields), row.recipe)
        head = (column.key, column.label(grid.label(column.recipe)), scale)
        for seed, trial in _trials(grid, cells, row, seeds):
            drawn = merge(fields, nested(trial.fields))
            recipe = grid.recipe(column.recipe, scale, cells.block.evaluation, drawn, cells.at)
            yield Planned(
                _cell(grid, cells, (row.label, row.method, {**hp, **trial.hp}), recipe, seed),
                grid.paper,
                *artefact,
                row.label,
                *head,
                file=file,
                guest=guest,
                trial=trial.number,
            )


def _trials(
    grid: Grid, cells: Cells, row: GridRow, seeds: Sequence[int]
) -> Iterator[tuple[int, Trial]]:
    """Every seed with its trials; one that tries nothing where nothing is searched."""
    wanted = cells.block.search
    if wanted is None:
        yield from ((seed, ALONE) for seed in seeds)
        return
    place = grid.at(*cells.at, "search")
    space = search.space_of(row.method, wanted.fields, row.hp, place)
    for seed in seeds:
        yield from ((seed, trial) for trial in search.trials(space, wanted.trials, seed))


def _cell(
    grid: Grid, cells: Cells, row: tuple[str, str, dict[str, Any]], recipe: Any, seed: int
) -> Cell:
    label, method, hp = row
    try:
        return build_cell(method, hp, recipe, seed)
    except UserError as error:
        place = grid.at(*cells.at, "rows", hints=(label,))
        raise UserError(f"{place}: row {label!r}: {error}") from None


# -- narrowing -------------------------------------------------------------------------------------


def _wanted(item: Planned, specs: Iterable[tuple[str, dict[str, Any]]]) -> bool:
    """Whether a cell satisfies one of the method specs; `name[option=value]` fixes options, the
    others are free.
    """
    specs = list(specs)
    return not specs or any(_matches(item.cell, name, hp) for name, hp in specs)


def _matches(cell: Cell, name: str, hp: dict[str, Any]) -> bool:
    return cell.method == name and all(
        plain(cell.hp.get(key)) == plain(value) for key, value in hp.items()
    )


def _extra_rows(
    planned: Sequence[Planned],
    found: Sequence[Planned],
    specs: Sequence[tuple[str, dict[str, Any]]],
) -> Iterator[Planned]:
    """A method that the selected artefacts do not show becomes a row of its own in them: how a new
    method meets a paper's table.
    """
    for name, hp in specs:
        if any(_matches(item.cell, name, hp) for item in found):
            continue
        places = {
            (item.paper, item.artefact, item.column, item.cell.seed): item
            for item in planned
            if item.kind == "table" and not item.trial
        }
        for item in places.values():
            cell = build_cell(
                name,
                hp,
                recipe_from(item.cell.recipe, f"{item.key}, {item.column}"),
                item.cell.seed,
            )
            yield replace(item, cell=cell, row=spec(name, hp), guest=spec(name, hp))
        tables = {item.key: item for item in planned if item.kind == "table" and item.trial}
        for item in tables.values():
            yield from _searched(item, GridRow(label=spec(name, hp), method=name, hp=hp))


def _searched(beside: Planned, row: GridRow) -> Iterator[Planned]:
    """A further row of a table whose rows are searched: with trials of its own, as many as each of
    the others.
    """
    grid = grids.read(beside.file or grids.files()[beside.paper])
    places = set()
    artefact = (beside.artefact, beside.kind)
    for cells in grid.cells(beside.artefact, beside.scale):
        if cells.block.search is None:
            continue
        own = replace(cells, rows=(row,))
        for item in _of_block(grid, artefact, beside.scale, own, row.label):
            if (place := (item.column, item.cell.seed, item.trial)) not in places:
                places.add(place)
                yield item


def _narrow(found: list[Planned], planned: list[Planned], selection: Selection) -> list[Planned]:
    """Apply the remaining selectors one after another; the one that leaves nothing is named, with
    what was on offer.
    """
    if not found:
        raise _nothing(
            "--method",
            ", ".join(selection.methods),
            {item.cell.method for item in planned},
            selection,
        )
    steps: list[tuple[str, Sequence[Any], Callable[[Planned], Any]]] = [
        ("--dataset", selection.datasets, lambda item: item.cell.recipe["dataset"]),
        ("--seed", selection.seeds, lambda item: item.cell.seed),
    ]
    for option, values, of in steps:
        offered = {of(item) for item in found}
        for value in values:
            if value not in offered:
                raise _nothing(option, str(value), offered, selection)
        found = [item for item in found if not values or of(item) in values]
    for prefix in selection.cells:
        if not any(item.cell.id.startswith(prefix) for item in found):
            raise UserError(
                f"--cell {prefix}: no selected cell has an id that starts so; `repfl plan --json`"
                " lists them"
            )
    return [
        item
        for item in found
        if not selection.cells or item.cell.id.startswith(tuple(selection.cells))
    ]


def _nothing(option: str, value: str, offered: Iterable[Any], selection: Selection) -> UserError:
    return UserError(
        f"{option} {value}: no cell of {_asked(selection)} at scale {selection.scale} has it;"
        f" {nearest(value, map(str, offered))}"
    )


def unique(planned: Iterable[Planned]) -> list[Planned]:
    """Each cell once, where it is first planned: artefacts share cells."""
    found: dict[str, Planned] = {}
    for item in planned:
        found.setdefault(item.cell.id, item)
    return list(found.values())


def shard(
    planned: Sequence[Planned], text: str, cost: Callable[[Planned], float] = lambda item: 1.0
) -> list[Planned]:
    """The i-th of n parts of the cells that cost about the same, `i/n` with i from 1; the same for
    the same plan on every machine.
    """
    part, _, parts = text.partition("/")
    numbers = re.fullmatch(r"[0-9]{1,9}/[0-9]{1,9}", text)
    if not numbers or not 1 <= int(part) <= int(parts) <= SHARDS:
        raise UserError(
            f"--shard {text!r} is not valid; valid: i/n with 1 <= i <= n <= {SHARDS:,}, such as 2/8"
        )
    loads, mine = [0.0] * int(parts), set()
    for load, item in sorted(
        ((cost(item), item) for item in unique(planned)),
        key=lambda pair: (-pair[0], pair[1].cell.id),
    ):
        least = loads.index(min(loads))  # the longest first, each to the part that has least to do
        loads[least] += load
        if least == int(part) - 1:
            mine.add(item.cell.id)
    return [item for item in planned if item.cell.id in mine]
