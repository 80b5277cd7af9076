"""Grid files: which cells each table and figure of a paper needs, at which scale."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from math import prod
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from repfl.bench.errors import UserError, no_name, one_line, refusal, unknown
from repfl.bench.grid.dotted_names import dotted, merge, nested
from repfl.bench.grid.methods import hyperparameters
from repfl.bench.grid.recipes import recipe_from
from repfl.bench.grid.schema import NAME, Block, Cells, GridFile, Scale, rows_of, written_out
from repfl.datasets.core.recipe import Recipe
from repfl.datasets.core.user_paths import real_path

SCALES = get_args(Scale)
ROOT = Path(__file__).resolve().parents[2] / "paper_tables"
MAX_CELLS = 100_000
"""Cells of one grid file at a scale."""
PLUGIN_PAPERS: dict[str, Path] = {}
"""Grid files of papers from plug-ins, by paper."""

# -- files -----------------------------------------------------------------------------------------


class Grid:
    """The grid of one paper, and the file that it was read from."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paper = paper_of(path)
        self._recipes: dict[tuple[Any, ...], Recipe] = {}
        if not NAME.fullmatch(self.paper):
            location = f"{self.name}: a grid.toml is called by its folder, others by their own name"
            raise no_name("paper", self.paper, location, "my-paper")
        self.file = self._load()
        self._check()

    @cached_property
    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: cannot be read: {one_line(error)}") from None

    def _load(self) -> GridFile:
        try:
            content = tomllib.loads(self._text)
        except (ValueError, RecursionError) as error:
            line = re.search(r"at line (\d+)", str(error))
            where = f"{self.name}:{line[1]}" if line else self.name
            raise UserError(f"{where}: {one_line(error)}") from None
        try:
            return GridFile.model_validate(content)
        except ValidationError as error:
            raise refusal(error, GridFile, self.name) from None

    @property
    def name(self) -> str:
        """The file as shown to users: relative to the repository, if it is in it."""
        try:
            return str(self.path.relative_to(ROOT.parent))
        except ValueError:
            return str(self.path)

    def at(self, *location: Any) -> str:
        """Return the file and a location in it, such as `artefacts.table1.cells.0`."""
        return f"{self.name}: {'.'.join(map(str, location))}"

    def cells(self, artefact: str, scale: str) -> Iterator[Cells]:
        """Yield the blocks of an artefact at a scale, all shorthands expanded."""
        only = self.file.scales[scale].only
        for cells in written_out(self.file, artefact):
            columns = tuple(
                column
                for column in cells.columns
                if any(fnmatchcase(column.recipe, pattern) for pattern in only)
            )
            if scale in cells.block.scales and columns:
                yield replace(cells, columns=columns)

    # -- whether all that a file names is there ----------------------------------------------------

    def _check(self) -> None:
        """Raise an error for an invalid grid file: what is wrong, where, and what would be
        valid.
        """
        file = self.file
        for name, table in file.recipes.items():
            if table.inherit is not None:
                self._refer("recipes", table.inherit, ("recipes", name, "inherit"))
        for name, recipes in file.columns.items():
            for recipe in recipes:
                self._refer("recipes", recipe, ("columns", name))
        for scale, rules in file.scales.items():
            if scale not in SCALES:
                raise unknown("scale", scale, SCALES, self.at("scales", scale))
            for part, patterns in (("recipes", rules.recipes), ("only", rules.only)):
                for pattern in patterns:
                    if not any(fnmatchcase(recipe, pattern) for recipe in file.recipes):
                        self._refer("recipes", pattern, ("scales", scale, part, pattern))
        self._check_artefacts()

    def _check_artefacts(self) -> None:
        file, cells = self.file, 0
        for key, artefact in file.artefacts.items():
            if not NAME.fullmatch(key):
                raise no_name("artefact", key, self.at("artefacts", key), "table1")
            if artefact.like:
                at = ("artefacts", key, "like")
                self._refer("artefacts", artefact.like, at)
                if file.artefacts[artefact.like].like:
                    raise UserError(
                        f"{self.at(*at)}: {artefact.like!r} is itself like another one; take that"
                    )
            for index, block in enumerate(artefact.cells):
                cells += self._check_block(block, ("artefacts", key, "cells", index), cells)

    def _check_block(self, block: Block, at: tuple[Any, ...], before: int) -> int:
        """Refuse a block with undefined names, too many cells or equal labels.

        Return its number of cells at one scale, counted before they are expanded.
        """
        file = self.file
        for name in (*block.recipes, *block.per):
            self._refer("recipes", name, (*at, "recipes"))
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
        if before + count > MAX_CELLS:
            factors = f"{rows:,} rows x {recipes:,} recipes x {seeds:,} seeds"
            factors += f" x {trials:,} trials" if block.search else ""
            raise UserError(
                f"{self.at(*at)}: {factors} bring this file to {before + count:,} cells at one"
                f" scale; a grid may have {MAX_CELLS:,}"
            )
        for label, times in Counter(row.label for row in rows_of(file, block)).items():
            if times > 1:
                self._check_sweep(block, at)
                swept = " ".join(f"{{{name}}}" for name in block.sweep)
                hint = (
                    f"; write what is swept into the label, as in 'NAME {swept}'" if swept else ""
                )
                location = self.at(*at, "rows")
                raise UserError(f"{location}: two rows are called {label!r}{hint}")
        return count

    def _check_sweep(self, block: Block, at: tuple[Any, ...]) -> None:
        """Refuse swept names that the first row does not have, before labels are made of them."""
        row = next(rows_of(self.file, block))
        hyperparameters(row.method, row.hp, f"{self.at(*at, 'rows')}: row {row.label!r}")
        for recipe in (*self.file.columns.get(block.columns, ()), *block.recipes, *block.per):
            for scale in filter(self.file.scales.__contains__, block.scales):
                self.recipe(recipe, scale, fields=row.recipe, at=at)

    def _refer(self, kind: str, name: str, at: tuple[Any, ...]) -> None:
        """Refuse a name that the file does not define."""
        defined = getattr(self.file, kind)
        if name not in defined:
            singular = kind if kind in ("rows", "columns") else kind.removesuffix("s")
            raise unknown(singular, name, defined, self.at(*at))

    # -- recipes -----------------------------------------------------------------------------------

    def label(self, recipe: str) -> str:
        """Return how tables name a recipe."""
        return str(self._inherited(recipe).get("label", recipe))

    def recipe(
        self,
        name: str,
        scale: str,
        evaluation: Mapping[str, Any] | None = None,
        fields: Mapping[str, Any] | None = None,
        at: tuple[Any, ...] = (),
    ) -> Recipe:
        """Return a validated recipe at a scale, with further `fields` that the file sets at the
        location `at`.
        """
        key = (name, scale, repr(evaluation), repr(fields))
        if key not in self._recipes:
            rules, values = self.file.scales[scale], self._inherited(name)
            changes = [v for pattern, v in rules.recipes.items() if fnmatchcase(name, pattern)]
            for table in (rules.recipe, *changes, {"evaluation": evaluation or {}}, fields or {}):
                values = merge(values, table)
            values.pop("label", None)
            try:
                self._recipes[key] = recipe_from(values, f"recipe {name!r} at scale {scale}")
            except UserError as error:
                location = (at if fields else ()) or ("recipes", name)
                raise UserError(f"{self.at(*location)}: {error}") from None
        return self._recipes[key]

    def _inherited(self, name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return a recipe's table, merged into the table that it inherits from."""
        if name in seen:
            raise UserError(
                f"{self.at('recipes', name, 'inherit')}: recipe {name!r} inherits from itself"
                f" through {' -> '.join(seen)}"
            )
        table = self.file.recipes[name]
        inherited = self._inherited(table.inherit, (*seen, name)) if table.inherit else {}
        for field in table.unset:
            flat = dotted(inherited)
            remaining = {k: v for k, v in flat.items() if not f"{k}.".startswith(f"{field}.")}
            if len(remaining) == len(flat):
                raise unknown("field", field, flat, self.at("recipes", name, "unset"))
            inherited = nested(remaining)
        own = dict(table.model_extra or {})
        if isinstance(label := own.get("label"), str):
            own["label"] = label.replace("{label}", str(inherited.get("label", "")))
        return merge(inherited, own)


def paper_of(path: Path) -> str:
    """Return the paper of a grid file: the folder's name for a grid.toml, else the file's name."""
    name = real_path(path).parent.name if path.name == "grid.toml" else path.stem
    return name.replace("_", "-")


def files(root: Path | None = None) -> dict[str, Path]:
    """Return the grid file of every paper, the board last; plug-ins included unless `root` is
    given.
    """
    paths = sorted((root or ROOT).glob("*/grid.toml"), key=lambda path: (not _prints(path), path))
    return {paper_of(path): path for path in paths} | ({} if root else PLUGIN_PAPERS)


def with_own(own: Iterable[Path]) -> dict[str, Path]:
    """Return the grid files of the papers, then those of the user, by name."""
    return files() | {paper_of(path): path for path in own}


def named(names: Iterable[str], papers: Iterable[str]) -> list[str]:
    """Return the papers with these names, which may be spelt like folders; refuse unknown ones."""
    requested = [name.replace("_", "-") for name in names]
    for name in requested:
        if name not in papers:
            raise unknown("paper", name, papers)
    return requested


def printed(root: Path | None = None) -> list[str]:
    """Return the papers with published numbers; the board has none."""
    return [paper for paper, path in files(root).items() if _prints(path)]


def _prints(path: Path) -> bool:
    return (path.parent / "published").is_dir()


def folder(paper: str, root: Path | None = None) -> Path:
    """Return a paper's folder, which may not exist."""
    outside = None if root else PLUGIN_PAPERS.get(paper)
    return outside.parent if outside else (root or ROOT) / paper.replace("-", "_")


def plugins_of(path: Path) -> list[str]:
    """Return the plug-ins that a grid file names, which are loaded before the file is checked."""
    try:
        named = tomllib.loads(path.read_text(encoding="utf-8")).get("plugins", [])
    except (OSError, ValueError, RecursionError):
        return []  # `read` says what is wrong
    valid = isinstance(named, list) and all(isinstance(each, str) for each in named)
    return [str(path.parent / each) for each in named] if valid else []


def with_named(plugins: Iterable[str], files: Iterable[Path]) -> list[str]:
    """Return plug-ins, and those that grid files name beside them."""
    given = list(plugins)
    known = {real_path(path) for path in given}
    named = [each for path in files for each in plugins_of(path)]
    return given + [each for each in dict.fromkeys(named) if real_path(each) not in known]


@lru_cache(maxsize=32)
def _read(path: Path, _changed: int) -> Grid:
    return Grid(path)


def read(path: Path) -> Grid:
    """Return a grid file, read again only if it has changed."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or one_line(error)}") from None
