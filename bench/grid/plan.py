"""Plans: the cells behind the selected artefacts, each with the place in a table it is for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from repfl.bench.errors import UserError, unknown
from repfl.bench.grid import grid as grids
from repfl.bench.grid import search
from repfl.bench.grid.cell import Cell, build_cell, parse_spec, spec
from repfl.bench.grid.grid import SCALES, Grid
from repfl.bench.grid.needs import unmet
from repfl.bench.grid.planned import Planned, Selection, described, matches, narrow, satisfies
from repfl.bench.grid.schema import Artefact, Cells, GridRow
from repfl.bench.grid.search import ALONE, Trial
from repfl.bench.grid.valid import hyperparameters, merge, nested, options_of, recipe_from


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
    planned = _whole(selection)
    if not planned:
        raise UserError(
            f"{described(selection)} has no cells at scale {selection.scale}; `repfl artefacts`"
            " lists what there is"
        )
    found = [item for item in planned if satisfies(item, specs)]
    added = (
        list(_extra_rows(planned, found, specs))
        if selection.papers or selection.artefacts or selection.files
        else []
    )
    shown = planned if beside and added and not found else found
    kept = narrow(
        shown + added, planned, selection, lambda scale: _whole(replace(selection, scale=scale))
    )
    return [replace(item, skip=why) if (why := unmet(item.cell)) else item for item in kept]


# -- papers and artefacts --------------------------------------------------------------------------


def _whole(selection: Selection) -> list[Planned]:
    """What the selected grids and artefacts plan at the scale, whatever else is asked for."""
    return [item for grid in _grids(selection) for item in _artefacts(grid, selection)]


def _grids(selection: Selection) -> Iterator[Grid]:
    """The grid files that a selection touches; the others are not even opened."""
    own = {grids.paper_of(path): path for path in selection.files}
    if len(own) < len(set(selection.files)):
        raise UserError(
            f"--grid {', '.join(map(str, selection.files))}: two files have the same name, which"
            " their artefacts are called by"
        )
    known = grids.files() | own
    papers = grids.named(selection.papers, known)
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
    space = search.space_of(row.method, wanted.ranges, row.hp, place)
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


# -- methods that a table lacks --------------------------------------------------------------------


def _extra_rows(
    planned: Sequence[Planned],
    found: Sequence[Planned],
    specs: Sequence[tuple[str, dict[str, Any]]],
) -> Iterator[Planned]:
    """A method that the selected artefacts do not show becomes a row of its own in them: how a new
    method meets a paper's table.
    """
    for name, hp in specs:
        if any(matches(item.cell, name, hp) for item in found):
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
            label = spec(name, hp) + _ending(item, planned)
            yield replace(item, cell=cell, row=label, guest=spec(name, hp))
        tables = {item.key: item for item in planned if item.kind == "table" and item.trial}
        for item in tables.values():
            yield from _searched(item, GridRow(label=spec(name, hp), method=name, hp=hp))


def _searched(beside: Planned, row: GridRow) -> Iterator[Planned]:
    """A further row of a table whose rows are searched: with trials of its own, as many as each of
    the others.
    """
    grid = grids.read(beside.file or grids.files()[beside.paper])
    artefact, joined = (beside.artefact, beside.kind), set[str]()
    for cells in grid.cells(beside.artefact, beside.scale):
        columns = tuple(each for each in cells.columns if each.key not in joined)
        if cells.block.search is None or not columns:
            continue  # what a further block searches is of its own rows
        joined |= {each.key for each in columns}
        own = replace(cells, rows=(row,), columns=columns)
        yield from _of_block(grid, artefact, beside.scale, own, row.label)


def _ending(item: Planned, planned: Sequence[Planned]) -> str:
    """What rows as they are have behind the name of the searched row beside them, such as `, as
    printed`; nothing where nothing is searched.
    """
    searched = {each.row for each in planned if each.trial and each.key == item.key}
    ends = [item.row.removeprefix(row) for row in searched if item.row.startswith(row)]
    return min(ends, key=len, default="")
