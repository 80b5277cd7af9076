"""Recipe tables of a grid file: one with `each` stands for several recipes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any


def written_out(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return recipe tables in which one with `each` stands once for every combination of values.

    `{name}` in its key and in its texts becomes the value; a text that is nothing else becomes the
    value itself, so that numbers stay numbers. Raise a ValueError if two tables get one name.
    """
    expanded: dict[str, Any] = {}
    for key, table in tables.items():
        for name, values in _points(key, table):
            if name in expanded:
                raise ValueError(f"two recipes are called {name!r}; write {{NAME}} into the key")
            expanded[name] = values
    return expanded


def _points(key: str, table: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(table, Mapping) or "each" not in table:
        yield key, table
        return
    each = table["each"]
    if not isinstance(each, Mapping) or not all(isinstance(v, list) and v for v in each.values()):
        raise ValueError(f"{key}: each = {each!r} is not valid; valid: {{ alpha = [0.1, 0.5] }}")
    rest = {name: value for name, value in table.items() if name != "each"}
    for values in product(*each.values()):
        point = dict(zip(each, values, strict=True))
        yield _filled(key, point), _filled(rest, point)


def _filled(value: Any, point: Mapping[str, Any]) -> Any:
    """Return a value with `{name}` filled in, wherever it stands."""
    if isinstance(value, Mapping):
        return {name: _filled(item, point) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, point) for item in value]
    if not isinstance(value, str):
        return value
    for name, item in point.items():
        if value == f"{{{name}}}":
            return item
        value = value.replace(f"{{{name}}}", str(item))
    return value
