"""Grid files: which cells each table and figure of a paper needs, at which scale."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from repfl.bench.cells.checking import LIMIT, NAME, check, no_name
from repfl.bench.cells.schema import Cells, GridFile, Scale, merge, written_out
from repfl.bench.cells.toml_lines import line_of
from repfl.bench.cells.valid import DEPTH, deep, recipe_from
from repfl.bench.errors import UserError, one_line, refusal, unknown
from repfl.datasets.core.recipe import Recipe

SCALES = get_args(Scale)
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
        if not NAME.fullmatch(self.paper):
            place = f"{self.name}: a grid's file or folder names its paper"
            raise no_name("paper", self.paper, place)
        self.file = self._load()
        check(self)

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
