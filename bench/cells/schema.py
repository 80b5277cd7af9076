"""What a grid file may say, and the blocks of cells that its shorthands stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Scale = Literal["smoke", "desk", "paper"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class GridRow(_Strict):
    """One row of a table, or one line of a figure."""

    label: str
    method: str
    hp: dict[str, Any] = {}


class Block(_Strict):
    """Rows crossed with recipes and seeds."""

    rows: list[GridRow] = []
    like: str = Field(default="", description="a list of [rows], put before the block's own")
    sweep: dict[str, list[Any]] = Field(
        default={},
        description=(
            "hyper-parameters and their values: every row once per value, `{name}` in its label"
        ),
    )
    recipes: list[str] = []
    columns: str = Field(
        default="", description="a list of [columns], put before the block's own recipes"
    )
    per: dict[str, dict[str, Any]] = Field(
        default={},
        description="further recipes, each with hyper-parameters of its own for all rows",
    )
    seeds: list[int] | None = None
    scales: list[Scale] = ["smoke", "desk", "paper"]
    evaluation: dict[str, Any] = {}


class Artefact(_Strict):
    """One table or figure."""

    kind: Literal["table", "figure"]
    title: str
    like: str = Field(default="", description="an artefact whose cells this one shows as well")
    cells: list[Block] = []


class ScaleRules(_Strict):
    """What a scale changes: seeds, all recipes, single recipes (by name or pattern, in the order of
    the file), hyper-parameters.

    Those of rows yield to these, but not in a block for this scale alone.
    """

    seeds: list[int] = Field(min_length=1)
    only: list[str] = Field(
        default=["*"], description="names or patterns of the recipes that run at this scale"
    )
    recipe: dict[str, Any] = {}
    recipes: dict[str, dict[str, Any]] = {}
    methods: dict[str, dict[str, Any]] = {}


class GridFile(_Strict):
    """A whole grid.toml."""

    title: str
    year: int
    recipes: dict[str, dict[str, Any]]
    rows: dict[str, list[GridRow]] = {}
    columns: dict[str, list[str]] = {}
    scales: dict[str, ScaleRules]
    artefacts: dict[str, Artefact]


@dataclass(frozen=True)
class Cells:
    """Rows crossed with recipes and seeds, every shorthand written out."""

    rows: tuple[GridRow, ...]
    recipes: tuple[str, ...]
    block: Block
    at: tuple[str | int, ...]
    """Where the file says so."""


def written_out(file: GridFile, artefact: str) -> Iterator[Cells]:
    """The blocks of an artefact; those of the artefact that it is like come first."""
    own = file.artefacts[artefact]
    if own.like:
        yield from written_out(file, own.like)
    for index, block in enumerate(own.cells):
        rows, at = tuple(rows_of(file, block)), ("artefacts", artefact, "cells", index)
        if recipes := (*file.columns.get(block.columns, ()), *block.recipes):
            yield Cells(rows, recipes, block, at)
        for recipe, hp in block.per.items():
            yield Cells(tuple(_with(row, hp) for row in rows), (recipe,), block, at)


def rows_of(file: GridFile, block: Block) -> Iterator[GridRow]:
    """The rows of a block: those of the list that it is like, then its own; each once per point of
    the sweep.
    """
    for row in (*file.rows.get(block.like, ()), *block.rows):
        for values in product(*block.sweep.values()):
            point = dict(zip(block.sweep, values, strict=True))
            label = row.label
            for name, value in point.items():
                label = label.replace(
                    f"{{{name}}}", f"{value:g}" if isinstance(value, float) else str(value)
                )
            yield _with(row, point, label)


def _with(row: GridRow, hp: Mapping[str, Any], label: str = "") -> GridRow:
    return GridRow(label=label or row.label, method=row.method, hp={**row.hp, **hp})
