"""Random search: the trials of a method, drawn the same way for every method.

A study is a seed. Its trials are a Latin hypercube: each dimension is cut into as many strata of
equal probability as there are trials, every trial has a stratum of its own, and its place in it is
drawn. A draw's address is the study, the dimension's name and the number of trials, so methods that
share a dimension, such as the learning rate, try the same values of it: what they differ in is not
the luck of the draw.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from repfl.bench.cells.space import Space, value
from repfl.bench.cells.valid import spaces
from repfl.bench.errors import UserError
from repfl.datasets.core.rng import generator

MOST = 4
"""Dimensions that a method may search: more would be more luck for the same number of trials."""


@dataclass(frozen=True)
class Trial:
    """One point of a search."""

    number: int
    """From 1; 0: nothing is searched."""
    hp: Mapping[str, Any]
    fields: Mapping[str, Any]
    """Fields of the recipe, under dotted names."""


ALONE = Trial(0, {}, {})


def space_of(
    method: str, beside: Mapping[str, Space], fixed: Collection[str], place: str
) -> dict[str, Space]:
    """All that is searched: what the method declares and its row leaves open, and what the grid
    searches beside it.
    """
    declared = spaces(method, place)
    space = {name: each for name, each in declared.items() if name not in fixed} | dict(beside)
    if not space or len(space) > MOST:
        raise UserError(
            f"{place}: {method} searches {', '.join(space) or 'nothing'}; valid: 1 to {MOST}"
            " dimensions"
        )
    return space


def trials(space: Mapping[str, Space], count: int, study: int) -> Iterator[Trial]:
    """The trials of a study; names with a dot are fields of the recipe, the others
    hyper-parameters.
    """
    drawn = {name: _shares(name, count, study) for name in space}
    for number in range(count):
        point = {name: value(space[name], drawn[name][number]) for name in space}
        yield Trial(
            number + 1,
            {name: found for name, found in point.items() if "." not in name},
            {name: found for name, found in point.items() if "." in name},
        )


@lru_cache(maxsize=4096)
def _shares(name: str, count: int, study: int) -> list[float]:
    """Where the trials lie in one dimension, from 0 up to 1."""
    address = int.from_bytes(sha256(name.encode()).digest()[:6], "big")
    rng = generator(study, "search", count, address)
    strata = (rng.permutation(count) + rng.random(count)) / count
    found: list[float] = np.minimum(strata, np.nextafter(1.0, 0.0)).tolist()
    return found
