"""Random search: the trials of a method, drawn the same way for every method.

A study is a seed. Its trials are a Latin hypercube: each dimension is cut into as many strata of
equal probability as there are trials, and each trial is drawn from a stratum of its own. Draws are
keyed by the study, the dimension's name and the number of trials, so methods that share a
dimension, such as the learning rate, try the same values of it.

A method declares a range beside its hyper-parameter, `param(..., search={"log": [0.1, 10]})`; a
grid file does so for a field of its recipe.

uniform     any number between two, all alike
log         any number between two above zero, all orders of magnitude alike
near-one    any number between two below one, such that its distance to one is searched like `log`
whole       any whole number from the first to the second
log whole   the same, all orders of magnitude alike
one of      one of these
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import floor, log10
from typing import Any

from repfl.bench.errors import UserError
from repfl.bench.grid.dotted_names import split_names
from repfl.bench.grid.methods import hyperparameters, search_space
from repfl.bench.grid.schema import RANGES, is_range

DIGITS = 3
"""Significant digits of a drawn number: fine enough to search, and equal text on every machine."""

Space = tuple[str, list[Any]]
MAX_DIMENSIONS = 4
"""Dimensions that a method may search: more would leave more to chance."""


@dataclass(frozen=True)
class Trial:
    """One point of a search."""

    number: int
    """From 1; 0 without a search."""
    hp: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Fields of the recipe, under dotted names."""


def space_of(
    method: str, grid_ranges: Mapping[str, Space], fixed: Collection[str], location: str
) -> dict[str, Space]:
    """Return the search space: ranges that the method declares, except those of fields that the row
    fixes, and the ranges of the grid.
    """
    declared = search_space(method, location)
    for name, (kind, limits) in declared.items():
        if not is_range(kind, limits):
            given = {kind: limits} if kind else limits
            raise UserError(
                f"method {method!r}: search of {name} = {given} is not valid; valid: {RANGES}"
            )
        for each in limits:
            hyperparameters(method, {name: each}, "the ends of its search")
    space = {name: each for name, each in declared.items() if name not in fixed}
    space |= grid_ranges
    if not space or len(space) > MAX_DIMENSIONS:
        raise UserError(
            f"{location}: {method} searches {', '.join(space) or 'nothing'}; valid: 1 to"
            f" {MAX_DIMENSIONS} dimensions"
        )
    return space


def trials(space: Mapping[str, Space], count: int, study: int) -> Iterator[Trial]:
    """Yield the trials of a study, or one empty trial if the space is empty; names with a dot are
    fields of the recipe, the others hyper-parameters.
    """
    if not space:
        yield Trial(0, {}, {})
    drawn = {name: _positions(name, count, study) for name in space}
    for number in range(count):
        point = {name: value(space[name], drawn[name][number]) for name in space}
        yield Trial(number + 1, *split_names(point))


@lru_cache(maxsize=4096)
def _positions(name: str, count: int, study: int) -> list[float]:
    """Return the positions of the trials in one dimension, from 0 up to 1."""
    import numpy as np

    from repfl.datasets.core.rng import generator

    address = int.from_bytes(sha256(name.encode()).digest()[:6], "big")
    rng = generator(study, "search", count, address)
    strata = (rng.permutation(count) + rng.random(count)) / count
    positions: list[float] = np.minimum(strata, np.nextafter(1.0, 0.0)).tolist()
    return positions


# -- ranges ----------------------------------------------------------------------------------------


def value(space: Space, position: float) -> Any:
    """Return the value at a position in the range, from 0 up to 1."""
    kind, limits = space
    if kind == "one of":
        return limits[floor(position * len(limits))]
    low, high = limits
    if kind == "whole":
        return low + floor(position * (high - low + 1))
    if kind == "log whole":
        return floor(low * ((high + 1) / low) ** position)
    if kind == "log":
        return _short(low * (high / low) ** position)
    if kind == "near-one":
        return round(1 - _short((1 - low) * ((1 - high) / (1 - low)) ** position), 12)
    return _short(low + position * (high - low))


def _short(number: float) -> float:
    """Round a number to `DIGITS` significant digits."""
    return round(number, DIGITS - 1 - floor(log10(abs(number)))) if number else 0.0


def range_text(space: Space) -> str:
    """Return a range in words."""
    kind, limits = space
    if kind == "one of":
        return ", ".join(map(str, limits))
    return f"{limits[0]:g} to {limits[1]:g}" + ("" if kind == "uniform" else f" ({kind})")
