"""Grid files: which cells each table and figure of a paper needs, at which scale."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.cells.cell import recipe_from
from bench.errors import UserError, one_line, refusal, unknown
from datasets.core.recipe import Recipe

SCALES = ("smoke", "desk", "paper")
ROOT = Path(__file__).resolve().parents[2] / "paper_tables"
Scale = Literal["smoke", "desk", "paper"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Row(_Strict):
    """One row of a table, or one line of a figure."""

    label: str
    method: str
    hp: dict[str, Any] = {}


class Block(_Strict):
    """Rows crossed with recipes and seeds."""

    rows: list[Row]
    recipes: list[str]
    seeds: list[int] | None = None
    scales: list[Scale] = ["smoke", "desk", "paper"]
    evaluation: dict[str, Any] = {}


class Artefact(_Strict):
    """One table or figure."""

    kind: Literal["table", "figure"]
    title: str
    cells: list[Block] = []


class ScaleRules(_Strict):
    """What a scale changes: seeds, all recipes, single recipes (by name or pattern, in the order of the file), hyper-parameters."""

    seeds: list[int] = Field(min_length=1)
    recipe: dict[str, Any] = {}
    recipes: dict[str, dict[str, Any]] = {}
    methods: dict[str, dict[str, Any]] = {}


class GridFile(_Strict):
    """A whole grid.toml."""

    title: str
    year: int
    recipes: dict[str, dict[str, Any]]
    scales: dict[str, ScaleRules]
    artefacts: dict[str, Artefact]


# -- files ---------------------------------------------------------------------------------------------------------------------------------


class Grid:
    """One paper's grid, with the file it came from at hand for messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paper = (path.parent.name if path.name == "grid.toml" else path.stem).replace("_", "-")
        self._recipes: dict[tuple[Any, ...], Recipe] = {}
        self.file = self._load()
        self._check_references()

    @cached_property
    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: cannot be read: {one_line(error)}") from None

    def _load(self) -> GridFile:
        try:
            return GridFile.model_validate(tomllib.loads(self._text))
        except tomllib.TOMLDecodeError as error:
            line = re.search(r"at line (\d+)", str(error))
            where = f"{self.name}:{line[1]}" if line else self.name
            raise UserError(f"{where}: {one_line(error)}") from None
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
        """Every recipe that is inherited, shown or changed must exist, and every seed be a seed."""
        known = self.file.recipes
        for scale, rules in self.file.scales.items():
            if scale not in SCALES:
                raise unknown("scale", scale, SCALES, self.at("scales", scale))
            for name in rules.recipes:
                if not any(fnmatchcase(recipe, name) for recipe in known):
                    self._refer(name, ("scales", scale, "recipes", name))
            self._seeds(rules.seeds, ("scales", scale, "seeds"))
        for key, artefact in self.file.artefacts.items():
            for index, block in enumerate(artefact.cells):
                for name in block.recipes:
                    self._refer(name, ("artefacts", key, "cells", index, "recipes"), hints=(name,))
                self._seeds(block.seeds or (), ("artefacts", key, "cells", index, "seeds"))
        for name, values in known.items():
            if "inherit" in values:
                self._refer(values["inherit"], ("recipes", name, "inherit"))

    def _refer(self, name: Any, location: tuple[Any, ...], hints: Sequence[str] = ()) -> None:
        if not isinstance(name, str) or name not in self.file.recipes:
            raise unknown("recipe", str(name), self.file.recipes, self.at(*location, hints=hints))

    def _seeds(self, seeds: Sequence[int], location: tuple[Any, ...]) -> None:
        for seed in seeds:
            if seed < 0:
                raise UserError(f"{self.at(*location)}: seed = {seed} is not valid; valid: a whole number >= 0")

    # -- recipes ---------------------------------------------------------------------------------------------------------------------------

    def label(self, recipe: str) -> str:
        """How tables name a recipe."""
        values = self._inherited(recipe)
        return str(values.get("label", recipe))

    def recipe(self, name: str, scale: str, evaluation: Mapping[str, Any] | None = None) -> Recipe:
        """A recipe at a scale, validated."""
        key = (name, scale, repr(evaluation))
        if key not in self._recipes:
            self._recipes[key] = self._resolve(name, scale, evaluation or {})
        return self._recipes[key]

    def _resolve(self, name: str, scale: str, evaluation: Mapping[str, Any]) -> Recipe:
        rules = self.file.scales[scale]
        values = self._inherited(name)
        own = [change for pattern, change in rules.recipes.items() if fnmatchcase(name, pattern)]
        for change in (rules.recipe, *own, {"evaluation": evaluation}):
            values = merge(values, change)
        values.pop("label", None)
        try:
            return recipe_from(values, f"recipe {name!r} at scale {scale}")
        except UserError as error:
            raise UserError(f"{self.at('recipes', name)}: {error}") from None

    def _inherited(self, name: str, heirs: tuple[str, ...] = ()) -> dict[str, Any]:
        if name in heirs:
            raise UserError(f"{self.at('recipes', name, 'inherit')}: recipe {name!r} inherits from itself through {' -> '.join(heirs)}")
        own = dict(self.file.recipes[name])
        parent = own.pop("inherit", None)
        return merge(self._inherited(parent, (*heirs, name)), own) if parent is not None else own


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `change` put in, tables into tables; a new partition rule drops the options of the old one."""
    merged = dict(base)
    if "options" in merged and change.get("rule", merged.get("rule")) != merged.get("rule"):
        del merged["options"]
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def files(root: Path | None = None) -> dict[str, Path]:
    """Every paper's grid file, by paper."""
    return {path.parent.name.replace("_", "-"): path for path in sorted((root or ROOT).glob("*/grid.toml"))}


@lru_cache(maxsize=32)
def _read(path: Path, _changed: int) -> Grid:
    return Grid(path)


def read(path: Path) -> Grid:
    """A grid file, read again only when it has changed."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or one_line(error)}") from None


# -- finding lines -------------------------------------------------------------------------------------------------------------------------

HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*=")
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
    """The line that sets a place, or the innermost table around it; then the first line from there on that mentions each hint."""
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
