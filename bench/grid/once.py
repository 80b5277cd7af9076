"""Values that are made once for an object that many cells share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Shared = TypeVar("Shared")
Made = TypeVar("Made")


def once(make: Callable[[Shared], Made]) -> Callable[[Shared], Made]:
    """Return a function that makes its value once per object, by identity: recipes and
    hyper-parameters hold dicts, so they have no hash. The value is shared and not to be changed.
    """
    # the object is kept too, so that its id is not reused
    made: dict[int, tuple[Shared, Made]] = {}

    @wraps(make)
    def of(shared: Shared) -> Made:
        if id(shared) not in made:
            made[id(shared)] = shared, make(shared)
        return made[id(shared)][1]

    return of
