"""Methods by name, with their hyper-parameters: validated, searched, and written as one word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError, unknown
from repfl.bench.grid.recipes import adapter, validated
from repfl.datasets.core.errors import registered

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry
    from repfl.datasets.core.recipe import Recipe


def entry(name: str, location: str = "") -> Entry:
    """Return the registry entry of a method; raise a UserError if there is none."""
    if (result := find_entry(name)) is None:
        from repfl.algorithms.core.wrapper import WRAPPERS

        inner, plus, outer = name.rpartition("+")
        if plus and outer not in WRAPPERS and find_entry(inner) is not None:
            raise unknown("wrapper", outer, WRAPPERS, location)
        raise unknown("method", name, _registry(), location)
    return result


def find_entry(name: str) -> Entry | None:
    """Return the registry entry of a method; None if it is not registered here."""
    return _registry().get(_registered(name))


def _registered(name: str) -> str:
    """Return a method's name as it is registered, hyphens for underscores; a wrapper around a
    method that it cannot be around is a UserError.
    """
    from repfl.algorithms.core.method import MethodError

    try:
        return registered(name, _registry())
    except MethodError as error:
        raise UserError(str(error)) from error


@lru_cache(maxsize=1)
def _registry() -> Mapping[str, Entry]:
    """Return the registry itself, so that methods registered later are included."""
    from repfl.algorithms.core.method import methods

    return methods()


def hyperparameters(name: str, overrides: Mapping[str, Any], location: str = "") -> Any:
    """Return a method's validated hyper-parameters; `none` means None if that is valid."""
    cls = entry(name, location).cls.HP
    optional = _optional(cls)

    def value(key: str, raw: Any) -> Any:
        return None if raw == "none" and key in optional else raw

    where = f"{location + ': ' if location else ''}method {name!r}, hyper-parameters"
    values = {key.replace("-", "_"): raw for key, raw in overrides.items()}
    return validated(cls, {key: value(key, raw) for key, raw in values.items()}, where)


@cache
def _optional(cls: type) -> frozenset[str]:
    """Return the hyper-parameters that may be None and are not text."""
    fields = adapter(cls).json_schema().get("properties", {})
    kinds = {key: {each.get("type") for each in f.get("anyOf", ())} for key, f in fields.items()}
    return frozenset(key for key, each in kinds.items() if "null" in each and "string" not in each)


def search_space(name: str, location: str = "") -> dict[str, tuple[str, list[Any]]]:
    """Return the hyper-parameters that a method's search covers, each with its range; of what is no
    range at all, the kind is empty.
    """
    properties = adapter(entry(name, location).cls.HP).json_schema().get("properties", {})
    ranges = {key: field["search"] for key, field in properties.items() if field.get("search")}
    return {
        key: next(iter(each.items())) if isinstance(each, dict) and len(each) == 1 else ("", each)
        for key, each in ranges.items()
    }


def stored_values(checked: Any) -> dict[str, Any]:
    """Return hyper-parameters as a cell's JSON has them: without those that came later."""
    values: dict[str, Any] = adapter(checked.__class__).dump_python(checked, mode="json")
    return values


def options_of(checked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return some hyper-parameters as plain values under their stored names, defaults included."""
    from repfl.algorithms.core.method import field_of

    values = stored_values(checked)
    stored = [field_of(checked.__class__, name) for name in names]
    return {field: values.get(field, getattr(checked, field)) for field in stored}


def with_defaults(hp: Any) -> dict[str, Any]:
    """Return all hyper-parameters as plain values under their stored names."""
    return options_of(hp, [field.name for field in fields(hp)])


def participants(method: str, recipe: Recipe) -> int:
    """Return how many clients a cell trains in a round."""
    method_entry = find_entry(method)
    return recipe.cohort(method_entry is not None and method_entry.cls.decentralised)


# -- a method and its options in one word: fedpurin[tau=0.3,bn=full] -------------------------------

SPEC = re.compile(r"(?P<name>[A-Za-z0-9._+-]+)(?:\[(?P<options>.*)\])?")


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and hyper-parameters of `fedpurin[tau=0.3,bn=full]`; hyphens and underscores are
    the same in both.
    """
    if isinstance(text, type):
        raise UserError(
            f"method {text.__name__} is a class, which repfl.open takes; to store its results, give"
            " it a name with @register in a file, and pass the name and plugins=['FILE.py']"
        )
    match = SPEC.fullmatch(str(text).strip())
    if match is None:
        raise UserError(
            f"method {text!r} is not of the form name or name[option=value,option=value]"
        )
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in (match["options"] or "").split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UserError(f"method {text!r}: {part!r} is not of the form option=value")
        name = key.strip().replace("-", "_")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value.strip().strip("'\"")
    return _registered(match["name"]), options


def spec(method: str, hp: Mapping[str, Any]) -> str:
    """Return the inverse of `parse_spec`."""
    options = ",".join(f"{key}={_spelled(value)}" for key, value in hp.items())
    return f"{method}[{options}]" if options else method


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value)
