"""Grid files: which cells each table and figure of a paper needs, at which scale."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from repfl.bench.errors import UserError, line_of, no_name, one_line, refusal, unknown
from repfl.bench.grid.recipes import leaves, merge, recipe_from
from repfl.bench.grid.schema import (
    NAME,
    Artefact,
    Block,
    Cells,
    GridFile,
    Scale,
    ScaleRules,
    rows_of,
    written_out,
)
from repfl.datasets.core.recipe import Recipe

SCALES = get_args(Scale)
ROOT = Path(__file__).resolve().parents[2] / "paper_tables"
LIMIT = 100_000
"""Cells of one grid file, and values that it may list; the largest grid of a paper has some
thousands.
"""
OUTSIDE: dict[str, Path] = {}
"""Grid files of papers that plugins brought, by paper."""

# -- files -----------------------------------------------------------------------------------------


class Grid:
    """One paper's grid, with the file it came from at hand for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paper = paper_of(path)
        self._recipes: dict[tuple[Any, ...], Recipe] = {}
        if not NAME.fullmatch(self.paper):
            place = f"{self.name}: a grid's file or folder names its paper"
            raise no_name("paper", self.paper, place, "my-paper")
        self.file = self._load()
        self._check()

    @cached_property
    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: cannot be read: {one_line(error)}") from None

    def _load(self) -> GridFile:
        listed = self._text.count(
            ","
        )  # before it is parsed, which would take a minute where it takes longest
        if listed > LIMIT:
            raise UserError(f"{self.name}: lists {listed:,} values; a grid file may list {LIMIT:,}")
        try:
            content = tomllib.loads(self._text)
        except (ValueError, RecursionError) as error:
            line = re.search(r"at line (\d+)", str(error))
            where = f"{self.name}:{line[1]}" if line else self.name
            raise UserError(f"{where}: {one_line(error)}") from None
        for _ in leaves(content, self.name):
            pass  # refuses what is nested too deeply
        try:
            return GridFile.model_validate(content)
        except ValidationError as error:
            location = tuple(error.errors(include_url=False)[0]["loc"])
            raise refusal(error, GridFile, self.at(*location)) from None

    @property
    def name(self) -> str:
        """The file as a user would name it."""
        try:
            return str(self.path.relative_to(ROOT.parent))
        except ValueError:
            return str(self.path)

    def at(self, *location: Any, hints: Sequence[str] = ()) -> str:
        """File and line of a place in the grid."""
        return f"{self.name}:{line_of(self._text, location, hints)}"

    def cells(self, artefact: str, scale: str) -> Iterator[Cells]:
        """The blocks of an artefact at a scale, every shorthand written out."""
        only = self.file.scales[scale].only
        for cells in written_out(self.file, artefact):
            columns = tuple(
                column
                for column in cells.columns
                if any(fnmatchcase(column.recipe, pattern) for pattern in only)
            )
            if scale in cells.block.scales and columns:
                yield replace(cells, columns=columns)

    # -- whatever a file names exists, and nobody is surprised by its size -------------------------

    def _check(self) -> None:
        """Refuse a grid file in one line that says what, where, and what would be valid."""
        for name, values in self.file.recipes.items():
            if "inherit" in values:
                self._refer("recipes", values["inherit"], ("recipes", name, "inherit"))
        for name, recipes in self.file.columns.items():
            for recipe in recipes:
                self._refer("recipes", recipe, ("columns", name), (recipe,))
        for scale, rules in self.file.scales.items():
            self._check_scale(scale, rules)
        count = 0
        for key, artefact in self.file.artefacts.items():
            self._check_artefact(key, artefact)
            for index, block in enumerate(artefact.cells):
                count += self._check_block(block, ("artefacts", key, "cells", index), count)

    def _check_scale(self, scale: str, rules: ScaleRules) -> None:
        """A scale has a known name, and its patterns match something."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES, self.at("scales", scale))
        for pattern in (*rules.recipes, *rules.only):
            if not any(fnmatchcase(recipe, pattern) for recipe in self.file.recipes):
                self._refer("recipes", pattern, ("scales", scale, "recipes", pattern))

    def _check_artefact(self, key: str, artefact: Artefact) -> None:
        """An artefact's name can become part of a path, and it is like one that stands alone."""
        if not NAME.fullmatch(key):
            raise no_name("artefact", key, self.at("artefacts", key), "table1")
        if artefact.like:
            at = ("artefacts", key, "like")
            self._refer("artefacts", artefact.like, at)
            if self.file.artefacts[artefact.like].like:
                raise UserError(
                    f"{self.at(*at)}: {artefact.like!r} is itself like another one; take that"
                )

    def _check_block(self, block: Block, at: tuple[Any, ...], before: int) -> int:
        """A block refers to what exists, and its rows can be told apart; returns how many cells it
        has at one scale, after `before` others. They are counted before they are written out.
        """
        file = self.file
        for name in (*block.recipes, *block.per):
            self._refer("recipes", name, (*at, "recipes"), (name,))
        if block.like:
            self._refer("rows", block.like, (*at, "like"))
        if block.columns:
            self._refer("columns", block.columns, (*at, "columns"))
        of_scales = [len(file.scales[s].seeds) for s in block.scales if s in file.scales]
        seeds = max(of_scales, default=0) if block.seeds is None else len(block.seeds)
        rows = len(file.rows.get(block.like, ())) + len(block.rows)
        rows *= prod(map(len, block.sweep.values()))
        recipes = len((*file.columns.get(block.columns, ()), *block.recipes, *block.per))
        recipes *= prod(map(len, block.across.values()))
        trials = block.search.trials if block.search else 1
        count = rows * recipes * seeds * trials
        if before + count > LIMIT:
            told = f"{rows:,} rows x {recipes:,} recipes x {seeds:,} seeds"
            told += f" x {trials:,} trials" if block.search else ""
            raise UserError(
                f"{self.at(*at)}: {told} bring this file to {before + count:,} cells at one"
                f" scale; a grid may have {LIMIT:,}"
            )
        for label, times in Counter(row.label for row in rows_of(file, block)).items():
            if times > 1:
                place = self.at(*at, "rows", hints=(label,))
                raise UserError(f"{place}: two rows are called {label!r}")
        return count

    def _refer(self, kind: str, name: Any, at: tuple[Any, ...], hints: Sequence[str] = ()) -> None:
        """What a place of the file names is there."""
        known = getattr(self.file, kind)
        if not isinstance(name, str) or name not in known:
            what = kind if kind in ("rows", "columns") else kind.removesuffix("s")
            raise unknown(what, str(name), known, self.at(*at, hints=hints))

    # -- recipes -----------------------------------------------------------------------------------

    def label(self, recipe: str) -> str:
        """How tables name a recipe."""
        values = self._inherited(recipe)
        return str(values.get("label", recipe))

    def recipe(
        self,
        name: str,
        scale: str,
        evaluation: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        at: tuple[Any, ...] = (),
    ) -> Recipe:
        """A recipe at a scale, validated; `fields` of it are otherwise, as the file says `at` some
        place.
        """
        key = (name, scale, repr(evaluation), repr(fields))
        if key not in self._recipes:
            changes = ({"evaluation": evaluation or {}}, fields or {})
            place = (at if fields else ()) or ("recipes", name)
            self._recipes[key] = self._resolve(name, scale, changes, place)
        return self._recipes[key]

    def _resolve(
        self, name: str, scale: str, changes: tuple[Mapping[str, Any], ...], at: tuple[Any, ...]
    ) -> Recipe:
        rules = self.file.scales[scale]
        values = self._inherited(name)
        own = [change for pattern, change in rules.recipes.items() if fnmatchcase(name, pattern)]
        for change in (rules.recipe, *own, *changes):
            values = merge(values, change)
        values.pop("label", None)
        try:
            return recipe_from(values, f"recipe {name!r} at scale {scale}")
        except UserError as error:
            raise UserError(f"{self.at(*at)}: {error}") from None

    def _inherited(self, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
        if name in seen:
            raise UserError(
                f"{self.at('recipes', name, 'inherit')}: recipe {name!r} inherits from itself"
                f" through {' -> '.join(seen)}"
            )
        own = dict(self.file.recipes[name])
        parent = own.pop("inherit", None)
        return merge(self._inherited(parent, (*seen, name)), own) if parent is not None else own


def paper_of(path: Path) -> str:
    """What the paper of a grid file is called: by its folder where the file is a grid.toml, else by
    the file.
    """
    return (path.parent.name if path.name == "grid.toml" else path.stem).replace("_", "-")


def files(root: Path | None = None) -> dict[str, Path]:
    """Every paper's grid file, by paper, the board's after those that print numbers; without a
    root, those of plugins too.
    """
    found = {
        path.parent.name.replace("_", "-"): path
        for path in sorted((root or ROOT).glob("*/grid.toml"), key=_order)
    }
    return found if root else found | OUTSIDE


def named(names: Iterable[str], known: Iterable[str]) -> list[str]:
    """Papers as they are called, also where a name is spelt like a folder; one of another name is
    refused.
    """
    papers = [name.replace("_", "-") for name in names]
    for name in papers:
        if name not in known:
            raise unknown("paper", name, known)
    return papers


def printed(root: Path | None = None) -> list[str]:
    """The papers that print numbers; the board is ours alone."""
    return [paper for paper, path in files(root).items() if not _order(path)[0]]


def _order(path: Path) -> tuple[bool, Path]:
    return not (path.parent / "published").is_dir(), path


def folder(paper: str, root: Path | None = None) -> Path:
    """A paper's folder, whether there is anything in it or not."""
    outside = None if root else OUTSIDE.get(paper)
    return outside.parent if outside else (root or ROOT) / paper.replace("-", "_")


@lru_cache(maxsize=32)
def _read(path: Path, _changed: int) -> Grid:
    return Grid(path)


def read(path: Path) -> Grid:
    """A grid file, read again only when it has changed."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or one_line(error)}") from None
