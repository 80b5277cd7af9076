"""Grid files: which cells each table and figure of a paper needs, at which scale."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from repfl.bench.cells.cell import DEPTH, deep, recipe_from
from repfl.bench.cells.schema import (
    Artefact,
    Block,
    Cells,
    GridFile,
    ScaleRules,
    merge,
    rows_of,
    written_out,
)
from repfl.bench.errors import UserError, one_line, refusal, unknown
from repfl.datasets.core.recipe import Recipe

SCALES = ("smoke", "desk", "paper")
LIMIT = 100_000
"""Cells of one grid file, and values that it may list; the largest grid of a paper has some
thousands.
"""
NAME = re.compile(r"[a-z0-9-]+")
"""What artefacts and papers are called: the names of files and folders in a report, of anchors in
its page and of labels in LaTeX.
"""
ROOT = Path(__file__).resolve().parents[2] / "paper_tables"
OUTSIDE: dict[str, Path] = {}
"""Grid files of papers that plugins brought, by paper."""

# -- files -----------------------------------------------------------------------------------------


class Grid:
    """One paper's grid, with the file it came from at hand for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paper = paper_of(path)
        self._recipes: dict[tuple[Any, ...], Recipe] = {}
        self._cells = 0
        if not NAME.fullmatch(self.paper):
            place = f"{self.name}: a grid's file or folder names its paper"
            raise _no_name("paper", self.paper, place)
        self.file = self._load()
        self._check_references()

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
        if deep(content):
            raise UserError(
                f"{self.name}: tables and lists lie more than {DEPTH} levels within each other"
            )
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

    def _check_references(self) -> None:
        """Everything that is inherited, shown or changed must exist, and every seed be a seed."""
        for name, values in self.file.recipes.items():
            if "inherit" in values:
                self._refer("recipe", values["inherit"], ("recipes", name, "inherit"))
        for name, names in self.file.columns.items():
            for recipe in names:
                self._refer("recipe", recipe, ("columns", name), hints=(recipe,))
        for scale, rules in self.file.scales.items():
            self._check_scale(scale, rules)
        for key, artefact in self.file.artefacts.items():
            self._check_artefact(key, artefact)

    def _check_artefact(self, key: str, artefact: Artefact) -> None:
        """An artefact's name can become part of a path, and its blocks refer to what exists."""
        if not NAME.fullmatch(key):
            raise _no_name("artefact", key, self.at("artefacts", key))
        if artefact.like:
            self._refer("artefact", artefact.like, ("artefacts", key, "like"))
            if self.file.artefacts[artefact.like].like:
                raise UserError(
                    f"{self.at('artefacts', key, 'like')}: {artefact.like!r} is itself like another"
                    " one; take that"
                )
        for index, block in enumerate(artefact.cells):
            self._check_block(block, ("artefacts", key, "cells", index))

    def _check_scale(self, scale: str, rules: ScaleRules) -> None:
        """A scale has a known name, and its patterns match something."""
        if scale not in SCALES:
            raise unknown("scale", scale, SCALES, self.at("scales", scale))
        for pattern in (*rules.recipes, *rules.only):
            if not any(fnmatchcase(recipe, pattern) for recipe in self.file.recipes):
                self._refer("recipe", pattern, ("scales", scale, "recipes", pattern))
        self._seeds(rules.seeds, ("scales", scale, "seeds"))

    def _check_block(self, block: Block, at: tuple[Any, ...]) -> None:
        """A block refers to recipes and lists that exist, and has something to show."""
        for name in (*block.recipes, *block.per):
            self._refer("recipe", name, (*at, "recipes"), hints=(name,))
        for what, name in (("rows", block.like), ("columns", block.columns)):
            if name:
                self._refer(what, name, (*at, "like" if what == "rows" else what))
        if not (block.rows or block.like) or not (block.recipes or block.columns or block.per):
            raise UserError(
                f"{self.at(*at)}: a block needs rows (or like) and recipes (or columns, or per)"
            )
        for what in ("sweep", "across"):
            self._check_sweep(block, what, at)
        self._count(block, at)
        for label, count in Counter(row.label for row in rows_of(self.file, block)).items():
            if count > 1:
                raise UserError(
                    f"{self.at(*at, 'rows', hints=(label,))}: two rows are called {label!r}"
                )
        self._seeds(block.seeds or (), (*at, "seeds"))

    def _check_sweep(self, block: Block, what: str, at: tuple[Any, ...]) -> None:
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
            raise UserError(f"{self.at(*at, what, hints=(name.rpartition('.')[2],))}: {wrong}")

    def _count(self, block: Block, at: tuple[Any, ...]) -> None:
        """Refuse more cells than anybody can run, before they are written out."""
        recipes = (*self.file.columns.get(block.columns, ()), *block.recipes, *block.per)
        at_most = max(
            (
                len(rules.seeds)
                for scale, rules in self.file.scales.items()
                if scale in block.scales
            ),
            default=0,
        )
        seeds = at_most if block.seeds is None else len(block.seeds)
        rows = (len(self.file.rows.get(block.like, ())) + len(block.rows)) * prod(
            map(len, block.sweep.values())
        )
        columns = len(recipes) * prod(map(len, block.across.values()))
        trials = block.search.trials if block.search else 1
        self._cells += rows * columns * seeds * trials
        if self._cells > LIMIT:
            told = f"{rows:,} rows x {columns:,} recipes x {seeds:,} seeds"
            told += f" x {trials:,} trials" if block.search else ""
            raise UserError(
                f"{self.at(*at)}: {told} bring this file to {self._cells:,} cells at one scale; a"
                f" grid may have {LIMIT:,}"
            )

    def _refer(
        self, what: str, name: Any, location: tuple[Any, ...], hints: Sequence[str] = ()
    ) -> None:
        known = getattr(self.file, what if what in ("rows", "columns") else f"{what}s")
        if not isinstance(name, str) or name not in known:
            raise unknown(what, str(name), known, self.at(*location, hints=hints))

    def _seeds(self, seeds: Sequence[int], location: tuple[Any, ...]) -> None:
        for seed in seeds:
            if seed < 0:
                raise UserError(
                    f"{self.at(*location)}: seed = {seed} is not valid; valid: a whole number >= 0"
                )

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


def _no_name(what: str, name: str, place: str) -> UserError:
    """The refusal of a name that could not safely become part of a path."""
    near = "-".join(re.findall(r"[a-z0-9]+", name.lower())) or "table1"
    return UserError(
        f"{place}: {what} {name!r} is not valid; valid: letters a-z, digits and hyphens, such as"
        f" {near}"
    )


def files(root: Path | None = None) -> dict[str, Path]:
    """Every paper's grid file, by paper, the board's after those that print numbers; without a
    root, those of plugins too.
    """
    found = {
        path.parent.name.replace("_", "-"): path
        for path in sorted((root or ROOT).glob("*/grid.toml"), key=_order)
    }
    return found if root else found | OUTSIDE


def printed() -> list[str]:
    """The papers that print numbers; the board is ours alone."""
    return [paper for paper, path in files().items() if not _order(path)[0]]


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


# -- finding lines ---------------------------------------------------------------------------------

HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(
    r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(quoted or single or bare for quoted, single, bare in PART.findall(dotted))


def _places(text: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Line numbers with the dotted path that the line opens or sets."""
    table: tuple[Any, ...] = ()
    counts: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield number, table
        elif key := KEY.match(line):
            yield number, (*table, *_parts(key[1]))


def line_of(text: str, location: Sequence[Any], hints: Sequence[str] = ()) -> int:
    """The line that sets a place, or the innermost table around it; then the first line from there
    on that mentions each hint.
    """
    best, depth = 1, 0
    for number, path in _places(text):
        if len(path) > depth and tuple(location[: len(path)]) == path:
            best, depth = number, len(path)
    lines = text.splitlines()
    for hint in (*map(str, location[depth:]), *hints):
        word = re.compile(rf"(?<![\w-]){re.escape(hint)}(?![\w-])")
        for number in range(best, len(lines) + 1):
            if number > best and HEADER.match(lines[number - 1]):
                break
            if word.search(lines[number - 1]):
                best = number
                break
    return best
