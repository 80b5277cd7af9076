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
EVERY_METHOD = ("everybody", "cohort")
"""Recipes for every method and seed."""
ONCE = ("board",)
"""Recipes for every method and the first seed."""

Place = tuple[str, str, int]
"""Method with its options, recipe and seed of a cell."""


def key(place: Place) -> str:
    """Return the name of a cell in the reference."""
    return " ".join(map(str, place))


def place_of(key: str) -> Place:
    """Return the place of a cell, the inverse of `key`."""
    name, recipe, seed = key.split(" ")
    return name, recipe, int(seed)


def method_of(key: str) -> str:
    """Return the method of a cell."""
    return parse_spec(place_of(key)[0])[0]


def cells(methods: Sequence[str] = ()) -> dict[str, Planned]:
    """Return the cells of some methods, or of all, by their keys."""
    from repfl.algorithms.core.method import methods as registry

    known = registry()
    for name in methods:
        if name not in known:
            raise unknown("method", name, known, "--method")
    return {
        key(place): _planned(name, hp, place)
        for name in sorted(methods or known)
        for place, hp in _of_method(name, known[name])
    }


def _of_method(name: str, entry: Entry) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the places of a method's cells, and its options there."""
    base, first = dict(entry.gate_hp), SEEDS[0]
    own = [(EVERY_METHOD[0], hp) for hp in _variants(name, entry) if not hp.items() <= base.items()]
    rows = [
        (recipe, row.hp)
        for artefact in grid().file.artefacts.values()
        for block in artefact.cells
        for row in block.rows
        for recipe in block.recipes
        if row.method == name
    ]
    for recipe in EVERY_METHOD if "p2p" not in entry.needs else EVERY_METHOD[:1]:
        yield from (((spec(name, base), recipe, seed), base) for seed in SEEDS)
    for recipe, options in [*own, *rows, *((recipe, {}) for recipe in ONCE)]:
        hp = {**base, **options}
        yield (spec(name, hp), recipe, first), hp


def _variants(name: str, entry: Entry) -> Iterator[dict[str, Any]]:
    return (parse_spec(f"{name}[{variant}]")[1] for variant in entry.variants)


@cache
def grid() -> Grid:
    """Read `gate.toml`."""
    return Grid(FILE)


def _planned(name: str, hp: dict[str, Any], place: Place) -> Planned:
    text, recipe, seed = place
    cell = build_cell(name, hp, grid().recipe(recipe, SCALE), seed)
    return Planned(cell, "check", recipe, "table", text, recipe, recipe, SCALE)
