"""Planned cells: cells with their row and column in a table or figure, from a grid's blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from shlex import quote

from repfl.bench.errors import UserError
from repfl.bench.grid import grid as grids
from repfl.bench.grid import search
from repfl.bench.grid.cell import Cell, build_cell
from repfl.bench.grid.dotted_names import merge, nested
from repfl.bench.grid.grid import Grid
from repfl.bench.grid.schema import Artefact, Cells


@dataclass(frozen=True)
class Planned:
    """A cell, and where in an artefact its result is shown."""

    cell: Cell
    paper: str
    artefact: str
    kind: str
    row: str
    column: str
    column_label: str
    scale: str
    skip: str = ""
    """Why the cell makes no sense; empty if it does."""
    file: Path | None = None
    """The grid file, unless it came with a paper."""
    guest: str = ""
    """The method of this cell, if the artefact has no row for it."""
    trial: int = 0
    """Its number in a search, from 1; 0 without a search. Every seed is a search of its own."""
    own_command: str = ""
    """The command that computes it, if it belongs to no artefact."""

    @property
    def key(self) -> str:
        return f"{self.paper}/{self.artefact}"

    @property
    def trial_row(self) -> str:
        """The name of the row in tables of single trials."""
        return f"{self.row}, trial {self.trial}" if self.trial else self.row

    @property
    def command(self) -> str:
        """The command that computes this cell alone, on any machine."""
        guests = [self.guest] if self.guest else []
        return self.own_command or (
            f"repfl run --scale {self.scale} --artefact {self.key} --cell"
            f" {self.cell.short}{plan_options(self.file, guests)}"
        )


def plan_options(file: Path | None, guests: Iterable[str]) -> str:
    """Return the options that also plan a cell: its grid file, and methods that the file lacks."""
    grid_option = "" if file is None else f" --grid {quote(str(file))}"
    return grid_option + "".join(f" --method {quote(guest)}" for guest in guests)


def unique(planned: Iterable[Planned]) -> list[Planned]:
    """Return each cell once, at its first occurrence: artefacts share cells."""
    first: dict[str, Planned] = {}
    for item in planned:
        first.setdefault(item.cell.id, item)
    return list(first.values())


def cells_of(
    grid: Grid,
    name: str,
    artefact: Artefact,
    scale: str,
    blocks: dict[str, list[Planned]] | None = None,
) -> Iterator[Planned]:
    """Yield the planned cells of one artefact at one scale; `blocks` caches planned blocks, which
    artefacts with `like` share.
    """
    blocks = {} if blocks is None else blocks
    for cells in grid.cells(name, scale):
        key = repr((cells.at, cells.rows, cells.columns))
        if key not in blocks:
            blocks[key] = list(of_block(grid, (name, artefact.kind), scale, cells))
        for item in blocks[key]:
            is_own = item.artefact == name
            yield item if is_own else replace(item, artefact=name, kind=artefact.kind)


def of_block(
    grid: Grid, artefact: tuple[str, str], scale: str, cells: Cells, guest: str = ""
) -> Iterator[Planned]:
    """Yield the planned cells of one block of an artefact, given as its name and kind."""
    rules, block = grid.file.scales[scale], cells.block
    file = None if grid.path in grids.files().values() else grid.path
    for row, column in product(cells.rows, cells.columns):
        scale_hp = rules.methods.get(row.method, {})
        # a block for one scale alone says what it needs there
        hp = scale_hp | row.hp if block.scales == [scale] else row.hp | scale_hp
        fields = merge(nested(column.fields), row.recipe)
        space = {}
        if block.search:
            location = grid.at(*cells.at, "search")
            space = search.space_of(row.method, block.search.ranges, row.hp, location)
        for seed in block.seeds if block.seeds is not None else rules.seeds:
            for trial in search.trials(space, block.search.trials if block.search else 0, seed):
                trial_fields = merge(fields, nested(trial.fields))
                recipe = grid.recipe(column.recipe, scale, block.evaluation, trial_fields, cells.at)
                try:
                    cell = build_cell(row.method, {**hp, **trial.hp}, recipe, seed)
                except UserError as error:
                    location = grid.at(*cells.at, "rows")
                    raise UserError(
                        f"{location}: row {row.label!r}, recipe {column.recipe!r}: {error}"
                    ) from None
                yield Planned(
                    cell,
                    grid.paper,
                    *artefact,
                    row.label,
                    column.key,
                    column.label(grid.label(column.recipe), cell),
                    scale,
                    file=file,
                    guest=guest,
                    trial=trial.number,
                )
