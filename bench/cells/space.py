"""Ranges that hyper-parameters and fields of recipes are searched in. A method declares one beside
its hyper-parameter, as in `param(..., search={"log": [0.1, 10]})`; a grid file says the same of a
field of its recipe.

uniform     any number between two, all alike
log         any number between two above zero, all orders of magnitude alike
near-one    any number between two below one, such that its distance to one is searched like `log`
whole       any whole number from the first to the second
log whole   the same, all orders of magnitude alike
one of      one of these

A range maps a number of [0, 1) to a value, so that draws are made elsewhere, and alike for all.
"""

from __future__ import annotations

from math import floor, log10
from typing import Any, Literal

DIGITS = 3
"""Significant digits of a drawn number: fine enough to search, and the same text everywhere."""

Range = Literal["log", "uniform", "whole", "log whole", "near-one", "one of"]
Space = tuple[str, list[Any]]


def value(space: Space, share: float) -> Any:
    """The value that lies at a share of the range, from 0 up to 1."""
    kind, limits = space
    if kind == "one of":
        return limits[floor(share * len(limits))]
    low, high = limits
    if kind == "whole":
        return low + floor(share * (high - low + 1))
    if kind == "log whole":
        return floor(low * ((high + 1) / low) ** share)
    if kind == "log":
        return _short(low * (high / low) ** share)
    if kind == "near-one":
        return round(1 - _short((1 - low) * ((1 - high) / (1 - low)) ** share), 12)
    return _short(low + share * (high - low))


def _short(number: float) -> float:
    """The number with few digits; what is left of zero stays zero."""
    return round(number, DIGITS - 1 - floor(log10(abs(number)))) if number else 0.0


def told(space: Space) -> str:
    """The range in words."""
    kind, limits = space
    if kind == "one of":
        return ", ".join(map(str, limits))
    return f"{limits[0]:g} to {limits[1]:g}" + ("" if kind == "uniform" else f" ({kind})")
