"""Methods by name, with their hyper-parameters: validated, searched, and written as one word."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError, unknown
from repfl.bench.grid.recipes import adapter, residents, validated

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry


def entry(name: str, place: str = "") -> Entry:
    """Return a method's line in the registry."""
    if (found := known_entry(name)) is None:
        raise unknown("method", name, _registry(), place)
    return found


def known_entry(name: str) -> Entry | None:
    """Return the same; None if it is not registered here, such as the method of an old record."""
    return _registry().get(name)


@lru_cache(maxsize=1)
def _registry() -> Mapping[str, Entry]:
    """Return the registry itself, which also has methods that are registered later."""
    from repfl.algorithms.core.method import methods

    return methods()


def hyperparameters(name: str, overrides: Mapping[str, Any], place: str = "") -> Any:
    """Return a method's validated hyper-parameters; `none` means None if that is valid."""
    cls = entry(name, place).cls.HP
    optional = _optional(cls)

    def value(key: str, given: Any) -> Any:
        return None if given == "none" and key in optional else given

    where = f"{place + ': ' if place else ''}method {name!r}, hyper-parameters"
    return validated(cls, {key: value(key, given) for key, given in overrides.items()}, where)


@cache
def _optional(cls: type) -> frozenset[str]:
    """Return the hyper-parameters that may be None and are no text."""
    known = adapter(cls).json_schema().get("properties", {})
    kinds = {key: {each.get("type") for each in f.get("anyOf", ())} for key, f in known.items()}
    return frozenset(key for key, each in kinds.items() if "null" in each and "string" not in each)


def search_space(name: str, place: str = "") -> dict[str, tuple[str, list[Any]]]:
    """Return the hyper-parameters of a method that a search tries, each with a range."""
    known = adapter(entry(name, place).cls.HP).json_schema().get("properties", {})
    return {
        key: next(iter(field["search"].items()))
        for key, field in known.items()
        if field.get("search")
    }


def options_of(checked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return some hyper-parameters as plain values, under the names they are stored by; also those
    that are not stored because they have their defaults.
    """
    from repfl.algorithms.core.method import field_of

    values = adapter(checked.__class__).dump_python(checked, mode="json")
    stored = [field_of(checked.__class__, name) for name in names]
    return {field: values.get(field, getattr(checked, field)) for field in stored}


def with_defaults(method: str, hp: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's hyper-parameters with those that are not stored."""
    default = hyperparameters(method, {})
    return options_of(default, [field.name for field in fields(default)]) | dict(hp)


def participants(method: str, recipe: Mapping[str, Any]) -> int:
    """Return how many clients a cell trains in a round."""
    from repfl.algorithms.core.recipe import cohort_size

    known, clients = known_entry(method), residents(recipe)
    decentralised = known is not None and known.cls.decentralised
    return clients if decentralised else cohort_size(clients, recipe["participation"])


# -- a method and its options in one word: fedpurin[tau=0.3,bn=full] -------------------------------

SPEC = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<options>.*)\])?")


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """Return name and hyper-parameters of `fedpurin[tau=0.3,bn=full]`."""
    match = SPEC.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"method {text!r} is not of the form name or name[option=value,option=value]"
        )
    options: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in (match["options"] or "").split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise UserError(f"method {text!r}: {part!r} is not of the form option=value")
        try:
            options[key.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            options[key.strip()] = value.strip().strip("'\"")
    return match["name"], options


def spec(method: str, hp: Mapping[str, Any]) -> str:
    """Return the inverse of `parse_spec`."""
    options = ",".join(f"{key}={_spelled(value)}" for key, value in hp.items())
    return f"{method}[{options}]" if options else method


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value)
