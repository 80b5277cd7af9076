"""Addresses of papers and code that a text names: `arXiv 2102.07078`, `OWNER/NAME at COMMIT`, or an
address as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

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
