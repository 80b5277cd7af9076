"""What a user wrote, made valid: hyper-parameters and recipes, or one line that says what is
wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from repfl.bench.errors import UserError, one_line, refusal, unknown
from repfl.bench.grid.sense import check
from repfl.datasets.core.recipe import Recipe

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry


def entry(name: str, place: str = "") -> Entry:
    """A method's line in the registry."""
    if (found := known_entry(name)) is None:
        raise unknown("method", name, _registry(), place)
    return found


def known_entry(name: str) -> Entry | None:
    """The same; none for a method that is not registered here, such as that of an old record."""
    return _registry().get(name)


@lru_cache(maxsize=1)
def _registry() -> Mapping[str, Entry]:
    """The registry itself, so that methods which are registered later are in it; looking for method
    files takes time, once.
    """
    from repfl.algorithms.core.method import methods

    return methods()


def hyperparameters(name: str, overrides: Mapping[str, Any], place: str = "") -> Any:
    """A method's validated hyper-parameters."""
    cls = entry(name, place).cls
    where = f"{place + ': ' if place else ''}method {name!r}, hyper-parameters"
    given = {
        key: None if value == "none" and _may_be_none(cls.HP, key) else value
        for key, value in overrides.items()
    }
    return _checked(cls.HP, given, where)


def spaces(name: str, place: str = "") -> dict[str, tuple[str, list[Any]]]:
    """What a search tries of a method: its hyper-parameters that say so, each with a range."""
    found = adapter(entry(name, place).cls.HP).json_schema().get("properties", {})
    searched = {key: field["search"] for key, field in found.items() if field.get("search")}
    return {key: next(iter(ranges.items())) for key, ranges in searched.items()}


def options_of(checked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Some of a method's hyper-parameters as plain values, under the names they are stored by; also
    those that are not stored because they have their defaults.
    """
    from repfl.algorithms.core.method import field_of

    values = adapter(type(checked)).dump_python(checked, mode="json")
    fields = [field_of(type(checked), name) for name in names]
    return {field: values.get(field, getattr(checked, field)) for field in fields}


def _may_be_none(cls: Any, field: str) -> bool:
    """Whether `none` means nothing here, and is not a text of its own."""
    schema = adapter(cls).json_schema().get("properties", {}).get(field, {})
    kinds = [option.get("type") for option in schema.get("anyOf", [])]
    return "null" in kinds and "string" not in kinds


def recipe_from(values: Mapping[str, Any], place: str) -> Recipe:
    """A validated recipe: its names all exist, and its values go together."""
    recipe: Recipe = _checked(Recipe, values, place)
    check(recipe, place)
    return recipe


def _checked(cls: Any, values: Mapping[str, Any], place: str) -> Any:
    """A strict dataclass from plain values; through JSON, in which lists stand for tuples and whole
    numbers for floats.
    """
    if deep(values):
        raise UserError(f"{place}: values lie more than {DEPTH} levels within each other")
    for field, value in _leaves(values):
        if value is not None and not isinstance(value, str | int | float):
            raise UserError(
                f"{place}: {field} = {value} is not valid; valid: a number, a text, true or false"
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{place}: {field} = {value} is not valid; valid: a finite number")
    try:
        return adapter(cls).validate_json(json.dumps(values))
    except ValidationError as error:
        raise refusal(error, cls, place) from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{place}: {one_line(error)}") from None


DEPTH = 12
"""Levels of tables and lists within each other; nothing that is valid has as many."""


def deep(value: Any, levels: int = DEPTH) -> bool:
    """Whether tables and lists lie within each other so deeply that functions that follow them
    would run out of stack.
    """
    if not isinstance(value, Mapping | list):
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return levels == 0 or any(deep(part, levels - 1) for part in parts)


def _leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value with the field it is in."""
    if not isinstance(value, Mapping | list | tuple):
        yield field, value
        return
    for name, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _leaves(inner, f"{field}.{name}" if field else str(name))


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def adapter(cls: Any) -> TypeAdapter[Any]:
    """A class's validator, which takes milliseconds to make."""
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


# -- recipes as nested tables ----------------------------------------------------------------------


def dotted(tables: Mapping[str, Any], outer: str = "") -> dict[str, Any]:
    """What nested tables hold, under dotted names; the inverse of `nested`."""
    flat: dict[str, Any] = {}
    for name, value in tables.items():
        flat |= (
            dotted(value, f"{outer}{name}.")
            if isinstance(value, Mapping)
            else {f"{outer}{name}": value}
        )
    return flat


def nested(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields under dotted names as tables within each other; `recipe.` at the front stands for the
    recipe itself.
    """
    tables: dict[str, Any] = {}
    for name, value in fields.items():
        *outer, last = name.removeprefix("recipe.").split(".")
        for part in reversed(outer):
            last, value = part, {last: value}
        tables = merge(tables, {last: value})
    return tables


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the entries of `change` put in, tables into tables; a new partition rule drops
    the options of the old one.
    """
    merged = dict(base)
    if "options" in merged and change.get("rule", merged.get("rule")) != merged.get("rule"):
        del merged["options"]
    for key, value in change.items():
        old = merged.get(key)
        merged[key] = (
            merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged
