"""Nested tables, as in TOML, and the same values under dotted names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every single value with the dotted name of its field."""
    if not isinstance(value, Mapping | list | tuple):
        yield field, value
        return
    for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from leaves(inner, f"{field}.{name}" if field else str(name))


def dotted(tables: Mapping[str, Any], outer: str = "") -> dict[str, Any]:
    """Return the values of nested tables under dotted names; the inverse of `nested`."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        inner = isinstance(value, Mapping)
        flat |= dotted(value, f"{outer}{name}.") if inner else {f"{outer}{name}": value}
    return flat


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables from dotted names; a leading `recipe.` is dropped."""
    tables: dict[str, Any] = {}
    for name, value in fields.items():
        *outer, last = name.removeprefix("recipe.").split(".")
        table = tables
        for part in outer:
            inner = table.get(part)
            table[part] = dict(inner) if isinstance(inner, Mapping) else {}
            table = table[part]
        table[last] = value
    return tables


def split_names(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return hyper-parameters, and fields of the recipe, whose names contain a dot."""
    hp = {name: value for name, value in values.items() if "." not in name}
    return hp, {name: value for name, value in values.items() if "." in name}


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `change`, table by table.

    Options belong to the rule or the class that is named beside them: a change that names one, even
    the same, replaces the old options.
    """
    merged = dict(base)
    if {"rule", "name"} & change.keys():
        merged.pop("options", None)
    for key, value in change.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = merge(old, value)
        merged[key] = value
    return merged
