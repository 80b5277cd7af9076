"""Names as parts of addresses."""

from __future__ import annotations

import re
from collections.abc import Iterable

LETTERS = {
    "α": "alpha",
    "β": "beta",
    "λ": "lambda",
    "τ": "tau",
    "θ": "theta",
    "Δ": "delta",
    "↑": "up",
    "↓": "down",
    "∞": "inf",
    "+": "plus",
}
"""What addresses write out."""


def slug(text: str) -> str:
    """A name as part of an address."""
    written = "".join(LETTERS.get(letter, letter) for letter in text)
    return re.sub(r"[^a-z0-9.]+", "-", written.lower()).strip("-") or "x"


def addressed(names: Iterable[str]) -> list[str]:
    """Addresses for names, each once: of equal ones the later are counted."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return found
