"""What a grid file must be beyond its form: whatever it names exists, and nobody is surprised by
its size.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from typing import TYPE_CHECKING, Any, get_args

from repfl.bench.cells.schema import Artefact, Block, Scale, ScaleRules, rows_of
from repfl.bench.errors import UserError, unknown

if TYPE_CHECKING:
    from repfl.bench.cells.grid import Grid

LIMIT = 100_000
"""Cells of one grid file, and values that it may list; the largest grid of a paper has some
thousands.
"""
NAME = re.compile(r"[a-z0-9-]+")
"""What artefacts and papers are called: the names of files and folders in a report, of anchors in
its page and of labels in LaTeX.
"""


def check(grid: Grid) -> None:
    """Refuse a grid file in one line that says what, where, and what would be valid."""
    Checker(grid).whole()


@dataclass
class Checker:
    """Goes through a grid file once."""

    grid: Grid
    cells: int = 0
    """Counted so far, at one scale."""

    def whole(self) -> None:
        """Everything that is inherited, shown or changed must exist, and every seed be a seed."""
        for name, values in self.grid.file.recipes.items():
            if "inherit" in values:
                self._refer("recipe", values["inherit"], ("recipes", name, "inherit"))
        for name, names in self.grid.file.columns.items():
            for recipe in names:
                self._refer("recipe", recipe, ("columns", name), hints=(recipe,))
        for scale, rules in self.grid.file.scales.items():
            self._scale(scale, rules)
        for key, artefact in self.grid.file.artefacts.items():
            self._artefact(key, artefact)

    def _artefact(self, key: str, artefact: Artefact) -> None:
        """An artefact's name can become part of a path, and its blocks refer to what exists."""
        if not NAME.fullmatch(key):
            raise no_name("artefact", key, self.grid.at("artefacts", key))
        if artefact.like:
            self._refer("artefact", artefact.like, ("artefacts", key, "like"))
            if self.grid.file.artefacts[artefact.like].like:
                raise UserError(
                    f"{self.grid.at('artefacts', key, 'like')}: {artefact.like!r} is itself like"
                    " another one; take that"
                )
        for index, block in enumerate(artefact.cells):
            self._block(block, ("artefacts", key, "cells", index))

    def _scale(self, scale: str, rules: ScaleRules) -> None:
        """A scale has a known name, and its patterns match something."""
        if scale not in get_args(Scale):
            raise unknown("scale", scale, get_args(Scale), self.grid.at("scales", scale))
        for pattern in (*rules.recipes, *rules.only):
            if not any(fnmatchcase(recipe, pattern) for recipe in self.grid.file.recipes):
                self._refer("recipe", pattern, ("scales", scale, "recipes", pattern))
        self._seeds(rules.seeds, ("scales", scale, "seeds"))

    def _block(self, block: Block, at: tuple[Any, ...]) -> None:
        """A block refers to recipes and lists that exist, and has something to show."""
        for name in (*block.recipes, *block.per):
            self._refer("recipe", name, (*at, "recipes"), hints=(name,))
        for what, name in (("rows", block.like), ("columns", block.columns)):
            if name:
                self._refer(what, name, (*at, "like" if what == "rows" else what))
        if not (block.rows or block.like) or not (block.recipes or block.columns or block.per):
            raise UserError(
                f"{self.grid.at(*at)}: a block needs rows (or like) and recipes (or columns, or"
                " per)"
            )
        for what in ("sweep", "across"):
            self._sweep(block, what, at)
        self._count(block, at)
        for label, count in Counter(row.label for row in rows_of(self.grid.file, block)).items():
            if count > 1:
                raise UserError(
                    f"{self.grid.at(*at, 'rows', hints=(label,))}: two rows are called {label!r}"
                )
        self._seeds(block.seeds or (), (*at, "seeds"))

    def _sweep(self, block: Block, what: str, at: tuple[Any, ...]) -> None:
        """What is swept has values; what goes across is a field of the recipe, and no row's."""
        for name, values in getattr(block, what).items():
            if not values:
                wrong = f"{what}: {name} has no values"
            elif what == "across" and "." not in name:
                wrong = f"across: {name!r} is not valid; valid: a field of the recipe, such as"
                wrong += " training.lr, partition.options.alpha or recipe.clients"
            elif what == "across" and name in block.sweep:
                wrong = f"{name} is swept and goes across; it can do one of them"
            else:
                continue
            raise UserError(f"{self.grid.at(*at, what, hints=(name.rpartition('.')[2],))}: {wrong}")

    def _count(self, block: Block, at: tuple[Any, ...]) -> None:
        """Refuse more cells than anybody can run, before they are written out."""
        recipes = (*self.grid.file.columns.get(block.columns, ()), *block.recipes, *block.per)
        at_most = max(
            (
                len(rules.seeds)
                for scale, rules in self.grid.file.scales.items()
                if scale in block.scales
            ),
            default=0,
        )
        seeds = at_most if block.seeds is None else len(block.seeds)
        rows = (len(self.grid.file.rows.get(block.like, ())) + len(block.rows)) * prod(
            map(len, block.sweep.values())
        )
        columns = len(recipes) * prod(map(len, block.across.values()))
        trials = block.search.trials if block.search else 1
        self.cells += rows * columns * seeds * trials
        if self.cells > LIMIT:
            told = f"{rows:,} rows x {columns:,} recipes x {seeds:,} seeds"
            told += f" x {trials:,} trials" if block.search else ""
            raise UserError(
                f"{self.grid.at(*at)}: {told} bring this file to {self.cells:,} cells at one"
                f" scale; a grid may have {LIMIT:,}"
            )

    def _refer(
        self, what: str, name: Any, location: tuple[Any, ...], hints: Sequence[str] = ()
    ) -> None:
        known = getattr(self.grid.file, what if what in ("rows", "columns") else f"{what}s")
        if not isinstance(name, str) or name not in known:
            raise unknown(what, str(name), known, self.grid.at(*location, hints=hints))

    def _seeds(self, seeds: Sequence[int], location: tuple[Any, ...]) -> None:
        for seed in seeds:
            if seed < 0:
                raise UserError(
                    f"{self.grid.at(*location)}: seed = {seed} is not valid; valid: a whole number"
                    " >= 0"
                )


def no_name(what: str, name: str, place: str) -> UserError:
    """The refusal of a name that could not safely become part of a path."""
    near = "-".join(re.findall(r"[a-z0-9]+", name.lower())) or "table1"
    return UserError(
        f"{place}: {what} {name!r} is not valid; valid: letters a-z, digits and hyphens, such as"
        f" {near}"
    )
