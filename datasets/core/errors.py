"""The one error that data raise, and the hint that every refusal carries."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class DataError(ValueError):
    """Something about a dataset, a partition or a recipe is wrong: one line that says what, where
    and what to do.
    """


def nearest(name: str, known: Iterable[str]) -> str:
    """The nearest valid names, as the end of an error message."""
    known = sorted(map(str, known))
    close = get_close_matches(name, known, n=3, cutoff=0.4)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"valid: {', '.join(known)}" if known else "there is none"
