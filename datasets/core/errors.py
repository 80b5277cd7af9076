"""The error that datasets raise, and the hint that ends its message."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches


class DataError(ValueError):
    """A dataset, partition or recipe is wrong; the message says what, where and what to do."""


MAX_NAMED = 50
"""Valid names that a message lists."""


def hyphened(name: str) -> str:
    """Return a name with hyphens for underscores: names that differ in these alone are the same."""
    return name.replace("_", "-")


def registered(name: str, known: Collection[str]) -> str:
    """Return a known name that differs from `name` in hyphens and underscores alone, else `name`
    itself.
    """
    if name in known:
        return name
    return next((each for each in known if hyphened(each) == hyphened(name)), name)


def suggest(name: str, known: Iterable[str]) -> str:
    """Return the nearest valid names, in whatever case, as the end of an error message."""
    known = sorted(known)
    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(by_lower[each] for each in close)}?"
    if len(known) > MAX_NAMED:
        return f"valid: {len(known)} names, such as {', '.join(known[:: len(known) // 3])}"
    return f"valid: {', '.join(known)}" if known else "there is none"
