"""Where a TOML file sets something, so that a message can name the line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

HEADER = re.compile(r"\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?$")
KEY = re.compile(
    r"\s*((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
PART = re.compile(r"\"([^\"]*)\"|'([^']*)'|([\w-]+)")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(quoted or single or bare for quoted, single, bare in PART.findall(dotted))


def _places(text: str) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """Line numbers with the dotted path that the line opens or sets."""
    table: tuple[Any, ...] = ()
    counts: dict[tuple[Any, ...], int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := HEADER.match(line):
            table = _parts(header[2])
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield number, table
        elif key := KEY.match(line):
            yield number, (*table, *_parts(key[1]))


def line_of(text: str, location: Sequence[Any], hints: Sequence[str] = ()) -> int:
    """The line that sets a place, or the innermost table around it; then the first line from there
    on that mentions each hint.
    """
    best, depth = 1, 0
    for number, path in _places(text):
        if len(path) > depth and tuple(location[: len(path)]) == path:
            best, depth = number, len(path)
    lines = text.splitlines()
    for hint in (*map(str, location[depth:]), *hints):
        word = re.compile(rf"(?<![\w-]){re.escape(hint)}(?![\w-])")
        for number in range(best, len(lines) + 1):
            if number > best and HEADER.match(lines[number - 1]):
                break
            if word.search(lines[number - 1]):
                best = number
                break
    return best
