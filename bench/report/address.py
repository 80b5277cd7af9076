"""Addresses: of things within a report, and of the papers and code that a text names as
`arXiv 2102.07078` or `OWNER/NAME at COMMIT`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from markupsafe import Markup, escape

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


# -- papers and code ------------------------------------------------------------------------------


NAMED = re.compile(
    r"arXiv (?P<paper>\d{4}\.\d{5})"
    r"|(?P<repository>[\w.-]+/[\w.-]+) at (?P<commit>(?=[a-f]*\d)[0-9a-f]{7,40})\b"
    r"|https://[^\s;,)]+[\w/]"
)


def named(text: str) -> Iterator[tuple[str, str]]:
    """Every name within a text that has an address, with it."""
    yield from ((match[0], _address(match)) for match in NAMED.finditer(text))


def linked(text: str) -> Markup:
    """The text with these names as links."""
    parts, at = [], 0
    for match in NAMED.finditer(text):
        address = _address(match)
        name = address.split("/")[2] if match[0] == address else match[0]
        parts += [
            escape(text[at : match.start()]),
            Markup('<a href="{}">{}</a>').format(address, name),
        ]
        at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def _address(match: re.Match[str]) -> str:
    if match["paper"]:
        return f"https://arxiv.org/abs/{match['paper']}"
    if match["repository"]:
        return f"https://github.com/{match['repository']}/tree/{match['commit']}"
    return match[0]
