"""Numbers and names of rows as parts of sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite


def signed(gap: float, half: float) -> str:
    """A difference in points with its interval."""
    told = f"{gap:+.1f} points"
    if isfinite(half):
        told += f" ({gap - half:+.1f} to {gap + half:+.1f})"
    return told.replace("-", "\N{MINUS SIGN}")


def counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def ordinal(place: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{'th' if place % 100 in (11, 12, 13) else ending}"


def listed(names: Sequence[str]) -> str:
    """Parts of a sentence as one reads them."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def rows(names: Iterable[str]) -> str:
    """The same of names of rows."""
    return listed([row(name) for name in names])


def row(name: str) -> str:
    """In quotation marks where it has a comma of its own."""
    return f"“{name}”" if "," in name else name
