"""Numbers as readers see them: fixed decimals, a true minus, a dash for none."""

from __future__ import annotations

from math import isfinite

BLANK, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"


def plain(value: float, digits: int = 2) -> str:
    """Return a number with fixed decimals, or a dash if it is not finite."""
    if not isfinite(value):
        return BLANK
    text = f"{value:.{digits}f}"
    return text.replace("-", MINUS) if float(text) else text.removeprefix("-")


def signed(value: float, digits: int = 2) -> str:
    """Return a difference with its sign."""
    text = plain(value, digits)
    return f"+{text}" if isfinite(value) and float(f"{value:.{digits}f}") > 0 else text
