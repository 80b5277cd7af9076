"""The cells of the gate: the rows of `gate.toml`, and every method with its variants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import unknown
from repfl.bench.grid.cell import build_cell
from repfl.bench.grid.grid import Grid
from repfl.bench.grid.methods import parse_spec, spec
from repfl.bench.grid.planned import Planned

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry

FILE = Path(__file__).with_name("gate.toml")
SCALE = "smoke"
SEEDS = (1, 2, 3)
RECIPES_FOR_ALL_SEEDS = ("everybody", "cohort")
"""Recipes that every method runs with all seeds."""
RECIPES_FOR_FIRST_SEED = ("board", "strangers")
"""Recipes that every method runs with the first seed."""

CellName = tuple[str, str, int]
"""Method with its options, recipe and seed of a cell."""


def key(cell_name: CellName) -> str:
    """Return the key of a cell in the reference."""
    return " ".join(map(str, cell_name))


def parse_key(key: str) -> CellName:
    """Return method, recipe and seed of a cell, the inverse of `key`."""
    name, recipe, seed = key.split(" ")
    return name, recipe, int(seed)


def method_of(key: str) -> str:
    """Return the method of a cell."""
    return parse_spec(parse_key(key)[0])[0]


def cells(methods: Sequence[str] = ()) -> dict[str, Planned]:
    """Return the cells of some methods, or of all, by their keys."""
    from repfl.algorithms.core.method import methods as registry

    registered = registry()
    for name in methods:
        if name not in registered:
            raise unknown("method", name, registered, "--method")
    return {
        key(cell_name): _planned(name, hp, cell_name)
        for name in sorted(methods or registered)
        for cell_name, hp in _of_method(name, registered[name])
    }


def _of_method(name: str, entry: Entry) -> Iterator[tuple[CellName, dict[str, Any]]]:
    """Yield the names of a method's cells, with the method's options there."""
    base, first = dict(entry.gate_hp), SEEDS[0]
    variants = (hp for hp in _variants(name, entry) if not hp.items() <= base.items())
    own = [(RECIPES_FOR_ALL_SEEDS[0], hp) for hp in variants]
    rows = [
        (recipe, row.hp)
        for artefact in grid().file.artefacts.values()
        for block in artefact.cells
        for row in block.rows
        for recipe in block.recipes
        if row.method == name
    ]
    for recipe in RECIPES_FOR_ALL_SEEDS if "p2p" not in entry.needs else RECIPES_FOR_ALL_SEEDS[:1]:
        yield from (((spec(name, base), recipe, seed), base) for seed in SEEDS)
    for recipe, options in [*own, *rows, *((recipe, {}) for recipe in RECIPES_FOR_FIRST_SEED)]:
        hp = {**base, **options}
        yield (spec(name, hp), recipe, first), hp


def _variants(name: str, entry: Entry) -> Iterator[dict[str, Any]]:
    return (parse_spec(f"{name}[{variant}]")[1] for variant in entry.variants)


@cache
def grid() -> Grid:
    """Read `gate.toml`."""
    return Grid(FILE)


def _planned(name: str, hp: dict[str, Any], cell_name: CellName) -> Planned:
    text, recipe, seed = cell_name
    cell = build_cell(name, hp, grid().recipe(recipe, SCALE), seed)
    return Planned(cell, "check", recipe, "table", text, recipe, recipe, SCALE)
