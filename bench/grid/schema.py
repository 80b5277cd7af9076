"""The schema of grid files, and the blocks of cells that their shorthands expand to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from repfl.bench.grid.cell import MAX_SEED, Cell
from repfl.bench.grid.dotted_names import dotted, merge, nested, split_names

Range = Literal["log", "uniform", "whole", "log whole", "near-one", "one of"]
Scale = Literal["smoke", "desk", "paper"]
Sweep = Annotated[
    dict[str, Annotated[list[Any], Field(min_length=1)]],
    # `training.lr` and "training.lr" are the same name, though TOML makes a table of one
    BeforeValidator(lambda given: dotted(given) if isinstance(given, dict) else given),
]
Seed = Annotated[int, Field(ge=0, lt=MAX_SEED)]
NAME = re.compile(r"[a-z0-9-]+")
"""Names of artefacts and papers, which become files, folders, anchors and labels in LaTeX."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GridRow(_Strict):
    """One row of a table, or one line of a figure."""

    label: str
    method: str
    hp: dict[str, Any] = {}
    recipe: dict[str, Any] = Field(
        default={}, description="fields of the recipe that differ in this row, at every scale"
    )


RANGES = (
    '{"log": [0.01, 1]}, "uniform", "whole", "log whole" or "near-one" with two such ends, or'
    ' {"one of": [1, 2, 5]}'
)
"""The ranges of a search, in words."""


def is_range(kind: str, limits: Any) -> bool:
    """Return whether a search can draw from this range."""
    if kind not in get_args(Range) or not isinstance(limits, list):
        return False
    if kind == "one of":
        return bool(limits)
    number = int if "whole" in kind else int | float
    if len(limits) != 2 or not all(isinstance(each, number) for each in limits):
        return False
    low, high = limits
    return (
        low < high and not ("log" in kind and low <= 0) and not (kind == "near-one" and high >= 1)
    )


class Search(_Strict):
    """Random search in place of one run: `trials` per row, column and seed, in the ranges that the
    method declares and in those `over` further fields, such as `{ log = [0.01, 1] }`. As in a
    sweep, a name without a dot is a hyper-parameter.
    """

    trials: int = Field(ge=1, le=1000)
    over: dict[str, dict[Range, list[Any]]] = {}

    @field_validator("over")
    @classmethod
    def _valid(cls, over: dict[str, Any]) -> dict[str, Any]:
        for name, ranges in over.items():
            if len(ranges) != 1:
                raise ValueError(f"{name}: give one range; valid: {RANGES}")
            for kind, limits in ranges.items():
                if not is_range(kind, limits):
                    raise ValueError(f"{name}: {kind} = {limits} is not a range; valid: {RANGES}")
        return over

    @property
    def ranges(self) -> dict[str, tuple[str, list[Any]]]:
        """The fields searched in addition to the method's own space, each with its range."""
        return {name: next(iter(ranges.items())) for name, ranges in self.over.items()}


class Block(_Strict):
    """Rows crossed with recipes and seeds.

    In a sweep a name without a dot is a hyper-parameter, one with a dot a field of the recipe, such
    as `training.lr`, `partition.options.alpha` or, if it is in no table, `recipe.model`.
    """

    rows: list[GridRow] = []
    like: str = Field(default="", description="a list of [rows], put before the block's own")
    sweep: Sweep = Field(
        default={},
        description=(
            "hyper-parameters or fields of the recipe, and their values: every row once per value,"
            " `{name}` in its label"
        ),
    )
    across: Sweep = Field(
        default={},
        description=(
            "fields of the recipe, and their values: every column once per value, `{name}` in its"
            " label or else after it"
        ),
    )
    search: Search | None = None
    recipes: list[str] = []
    columns: str = Field(
        default="", description="a list of [columns], put before the block's own recipes"
    )
    per: dict[str, dict[str, Any]] = Field(
        default={},
        description="further recipes, each with hyper-parameters of its own for all rows",
    )
    seeds: list[Seed] | None = None
    scales: list[Scale] = ["smoke", "desk", "paper"]
    evaluation: dict[str, Any] = {}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Refuse a block that shows nothing, and across what is no field of the recipe."""
        if not (self.rows or self.like) or not (self.recipes or self.columns or self.per):
            raise ValueError("a block needs rows (or like) and recipes (or columns, or per)")
        for name in self.across:
            if "." not in name:
                raise ValueError(
                    f"across: {name!r} is not valid; valid: a field of the recipe, such as"
                    " training.lr, partition.options.alpha or recipe.clients"
                )
            if name in self.sweep:
                raise ValueError(f"{name} is swept and goes across; it can do one of them")
        return self


class Printed(_Strict):
    """What a paper says about the runs behind the accuracies of a table without code of its own."""

    runs: int = Field(default=1, ge=1, description="independent runs behind each mean")
    deviation: bool = Field(default=False, description="whether its ± is their standard deviation")
    rule: Literal["", "last", "max", "best-val"] = Field(
        default="", description="the round that it reports; empty: unknown"
    )


class Artefact(_Strict):
    """One table or figure."""

    kind: Literal["table", "figure"]
    title: str
    caption: str = Field(default="", description="replaces the generated one, of plain forms")
    like: str = Field(default="", description="an artefact whose cells this one shows as well")
    printing: Printed = Printed()
    cells: list[Block] = []


class ScaleRules(_Strict):
    """What a scale changes: seeds, all recipes, single recipes (by name or pattern, in the order of
    the file), hyper-parameters.

    Those of rows yield to these, but not in a block for this scale alone.
    """

    seeds: list[Seed] = Field(min_length=1)
    only: list[str] = Field(
        default=["*"], description="names or patterns of the recipes that run at this scale"
    )
    recipe: dict[str, Any] = {}
    recipes: dict[str, dict[str, Any]] = {}
    methods: dict[str, dict[str, Any]] = {}


class RecipeTable(BaseModel):
    """Fields of a recipe, or its differences from another recipe of the file.

    A table with `each = { alpha = [0.1, 0.5] }` stands for one recipe per value, with `{alpha}` in
    its key, and wherever the value goes; `{label}` in a label is the inherited one. Tables are
    merged into those inherited, entry by entry. A table that names a `rule` (a partition) or a
    `name` (an optimiser, a schedule) replaces the options of the inherited one.
    """

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    inherit: str | None = None
    printed: dict[str, str] = Field(
        default={},
        description=(
            "`dataset` and `setting` of the numbers that the paper prints for this recipe, as in"
            " its published files; not inherited"
        ),
    )
    unset: list[str] = Field(
        default=[],
        description=(
            "inherited fields or tables that are left out, such as `newcomers` or"
            " `partition.options.test_share`"
        ),
    )


def _written_out(tables: Any) -> Any:
    """Return the tables of recipes, those with `each` written out."""
    from repfl.paper_tables.core.expand_each import written_out

    return written_out(tables) if isinstance(tables, Mapping) else tables


class GridFile(_Strict):
    """A whole grid.toml."""

    title: str
    year: int
    sources: str = Field(
        default="",
        description=(
            "where the paper is, and the code that was read; `arXiv NUMBER`, `OWNER/NAME at COMMIT`"
            " and addresses become links"
        ),
    )
    about: str = Field(
        default="",
        description="what came out, in a sentence; of a protocol that no paper has, its question",
    )
    plugins: list[str] = Field(
        default=[], description="files of plug-ins that its cells need, relative to this file"
    )
    recipes: Annotated[dict[str, RecipeTable], BeforeValidator(_written_out)]
    rows: dict[str, list[GridRow]] = {}
    columns: dict[str, list[str]] = {}
    scales: dict[str, ScaleRules]
    artefacts: dict[str, Artefact]


# -- shorthands written out ------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A recipe of the file, and fields that differ in this column."""

    recipe: str
    fields: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The name of the column in data."""
        fields = ",".join(f"{name}={_spelled(value)}" for name, value in self.fields.items())
        return f"{self.recipe}[{fields}]" if fields else self.recipe

    def label(self, recipe_label: str, cell: Cell) -> str:
        """Return the name of the column in tables, filled with fields of the cell's recipe."""
        label, rest = _filled(recipe_label, self.fields)
        if "{" in label:
            label, _ = _filled(label, dotted(cell.json["recipe"]))
        return ", ".join([label, *(f"{n.rpartition('.')[2]} = {v}" for n, v in rest.items())])


@dataclass(frozen=True)
class Cells:
    """Rows crossed with columns and seeds, all shorthands expanded."""

    rows: tuple[GridRow, ...]
    columns: tuple[Column, ...]
    block: Block
    at: tuple[str | int, ...]
    """The location in the file."""


def written_out(file: GridFile, artefact: str) -> Iterator[Cells]:
    """Yield the expanded blocks of an artefact; those of its `like` artefact come first."""
    own_artefact = file.artefacts[artefact]
    if own_artefact.like:
        yield from written_out(file, own_artefact.like)
    for index, block in enumerate(own_artefact.cells):
        shared = (*file.columns.get(block.columns, ()), *block.recipes)
        groups = [(shared, {}), *(((recipe,), hp) for recipe, hp in block.per.items())]
        for recipes, hp in groups:
            rows = [row.model_copy(update={"hp": row.hp | hp}) for row in rows_of(file, block)]
            columns = [
                Column(recipe, point) for recipe in recipes for point in _points(block.across)
            ]
            if columns:
                at = ("artefacts", artefact, "cells", index)
                yield Cells(tuple(rows), tuple(columns), block, at)


def rows_of(file: GridFile, block: Block) -> Iterator[GridRow]:
    """Yield the rows of a block, first those of its `like` list; each once per point of the
    sweep.
    """
    for row in (*file.rows.get(block.like, ()), *block.rows):
        for point in _points(block.sweep):
            hp, fields = split_names(point)
            label, recipe = _filled(row.label, point)[0], merge(row.recipe, nested(fields))
            yield row.model_copy(update={"label": label, "hp": row.hp | hp, "recipe": recipe})


def _points(sweep: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of values."""
    return (dict(zip(sweep, values, strict=True)) for values in product(*sweep.values()))


def _filled(label: str, values: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return a label with its `{name}` filled in, and the values that it does not mention."""
    rest = {name: _spelled(value) for name, value in values.items() if f"{{{name}}}" not in label}
    for name, value in values.items():
        label = label.replace(f"{{{name}}}", _spelled(value))
    return label, rest


def _spelled(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
