"""A cell: one method with its hyper-parameters, one recipe, one seed. Its id is the SHA-256 of its
canonical JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from hashlib import sha256
from operator import getitem
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from repfl.bench.cells.sense import check
from repfl.bench.errors import UserError, one_line, refusal, unknown
from repfl.datasets.core.recipe import SILENT, Newcomers, Recipe

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry

SPEC = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<options>.*)\])?")


def plain(value: Any) -> Any:
    """A value as JSON knows it, with one form for equal numbers: whole floats become integers,
    tuples become lists.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        return int(value)
    return value


def canonical(value: Any) -> str:
    """Canonical JSON: sorted keys, no spaces, equal numbers written alike."""
    return json.dumps(plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def _canonical_part(value: Mapping[str, Any]) -> str:
    """The same of a recipe or of hyper-parameters, which many cells share; worked out once per
    object.
    """
    known = _PARTS.get(id(value))
    if known is None:
        known = _PARTS[id(value)] = (value, canonical(value))
    return known[1]


_PARTS: dict[int, tuple[Mapping[str, Any], str]] = {}
"""By the identity of the object, which is kept beside its text so that the identity stays taken."""


@dataclass(frozen=True)
class Cell:
    """One experiment, fully resolved."""

    method: str
    version: int
    hp: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int

    @cached_property
    def json(self) -> dict[str, Any]:
        """Everything that tells this cell from any other."""
        return plain(
            {
                "method": self.method,
                "version": self.version,
                "hp": self.hp,
                "recipe": self.recipe,
                "seed": self.seed,
            }
        )

    @cached_property
    def id(self) -> str:
        hp, recipe = _canonical_part(self.hp), _canonical_part(self.recipe)
        method, seed, version = map(canonical, (self.method, self.seed, self.version))
        text = (
            f'{{"hp":{hp},"method":{method},"recipe":{recipe},"seed":{seed},"version":{version}}}'
        )
        return sha256(text.encode()).hexdigest()

    @property
    def short(self) -> str:
        """Enough of the id to tell cells apart on a screen."""
        return self.id[:12]

    @property
    def rounds(self) -> int:
        return int(self.recipe["training"]["rounds"])

    def __str__(self) -> str:
        return f"{self.method} on {self.recipe['dataset']}, seed {self.seed} ({self.short})"


# -- methods ---------------------------------------------------------------------------------------


def parse_spec(text: str) -> tuple[str, dict[str, Any]]:
    """`fedpurin[tau=0.3,bn=full]` as a name and hyper-parameters."""
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
        options[key.strip()] = _literal(value.strip())
    return match["name"], options


def _literal(text: str) -> Any:
    """A number, true, false or null where it reads as one; otherwise the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text.strip("'\"")


def spec(method: str, hp: Mapping[str, Any]) -> str:
    """The inverse of `parse_spec`."""
    options = ",".join(f"{key}={_spelled(value)}" for key, value in hp.items())
    return f"{method}[{options}]" if options else method


def _spelled(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "none" if value is None else json.dumps(value)


def entry(name: str, place: str = "") -> Entry:
    """A method's line in the registry."""
    if (found := known_entry(name)) is None:
        raise unknown("method", name, _registry(), place)
    return found


def known_entry(name: str) -> Entry | None:
    """The same; none for a method that is not registered here, such as that of an old record."""
    return _registry().get(name)


def participants(method: str, recipe: Mapping[str, Any]) -> int:
    """How many clients a cell trains in a round."""
    from repfl.algorithms.core.recipe import cohort_size

    known, clients = known_entry(method), residents(recipe)
    everybody = known is not None and known.cls.serverless
    return clients if everybody else cohort_size(clients, recipe["participation"])


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
    found = _adapter(entry(name, place).cls.HP).json_schema().get("properties", {})
    searched = {key: field["search"] for key, field in found.items() if field.get("search")}
    return {key: next(iter(ranges.items())) for key, ranges in searched.items()}


def _may_be_none(cls: Any, field: str) -> bool:
    """Whether `none` means nothing here, and is not a text of its own."""
    schema = _adapter(cls).json_schema().get("properties", {}).get(field, {})
    kinds = [option.get("type") for option in schema.get("anyOf", [])]
    return "null" in kinds and "string" not in kinds


def options_of(checked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Some of a method's hyper-parameters as plain values, under the names they are stored by; also
    those that are not stored because they have their defaults.
    """
    from repfl.algorithms.core.method import field_of

    values = _adapter(type(checked)).dump_python(checked, mode="json")
    fields = [field_of(type(checked), name) for name in names]
    return {field: values.get(field, getattr(checked, field)) for field in fields}


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
        return _adapter(cls).validate_json(json.dumps(values))
    except ValidationError as error:
        raise refusal(error, cls, place) from None
    except ValueError as error:  # a number of thousands of digits
        raise UserError(f"{place}: {one_line(error)}") from None


DEPTH = 12
"""Levels of tables and lists within each other; nothing that is valid has as many."""


def deep(value: Any) -> bool:
    """Whether tables and lists lie within each other so deeply that functions that follow them
    would run out of stack.
    """
    level = [value]
    for _ in range(DEPTH):
        parts = (
            inner.values() if isinstance(inner, Mapping) else inner
            for inner in level
            if isinstance(inner, Mapping | list)
        )
        level = [each for part in parts for each in part]
    return any(isinstance(inner, Mapping | list) for inner in level)


def _leaves(value: Any, field: str = "") -> Iterator[tuple[str, Any]]:
    """Every single value with the field it is in."""
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list | tuple)
        else None
    )
    if items is None:
        yield field, value
    for name, inner in items or ():
        yield from _leaves(inner, f"{field}.{name}" if field else str(name))


_ADAPTERS: dict[Any, TypeAdapter[Any]] = {}


def _adapter(cls: Any) -> TypeAdapter[Any]:
    """A class's validator, which takes milliseconds to make."""
    if cls not in _ADAPTERS:
        _ADAPTERS[cls] = TypeAdapter(cls)
    return _ADAPTERS[cls]


# -- recipes ---------------------------------------------------------------------------------------


def recipe_from(values: Mapping[str, Any], place: str) -> Recipe:
    """A validated recipe: its names all exist, and its values go together."""
    recipe: Recipe = _checked(Recipe, values, place)
    check(recipe, place)
    return recipe


def build_cell(
    method: str, hp: Mapping[str, Any], recipe: Recipe, seed: int, place: str = ""
) -> Cell:
    """The cell of a method, its hyper-parameters, a recipe and a seed; whatever is wrong is refused
    in one line.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UserError(
            f"{place + ': ' if place else ''}seed = {seed!r} is not valid; valid: a whole number"
            " >= 0"
        )
    values = recipe_values(recipe)
    return Cell(method, entry(method).version, _resolved(method, hp, place), values, seed)


def _resolved(method: str, hp: Mapping[str, Any], place: str) -> dict[str, Any]:
    """All hyper-parameters as plain values; worked out once, since grids repeat them by recipe and
    seed.
    """
    key = (entry(method, place).cls, repr(hp))
    if key not in _RESOLVED:
        checked = hyperparameters(method, hp, place)
        _RESOLVED[key] = _adapter(type(checked)).dump_python(checked, mode="json")
    return _RESOLVED[key]


_RESOLVED: dict[tuple[Any, str], dict[str, Any]] = {}


def recipe_values(recipe: Recipe, place: str = "partition") -> dict[str, Any]:
    """All fields of a recipe as plain values, the partition's options with their defaults; worked
    out once per recipe object.
    """
    known = _VALUES.get(id(recipe))
    if known is None:
        known = _VALUES[id(recipe)] = (recipe, _recipe_values(recipe, place))
    return known[1]


_VALUES: dict[int, tuple[Recipe, dict[str, Any]]] = {}
"""Plain values by the identity of their recipe, which is kept beside them so that the identity
stays taken.
"""


def _recipe_values(recipe: Recipe, place: str) -> dict[str, Any]:
    from repfl.datasets.core import partition
    from repfl.datasets.core.errors import DataError

    values: dict[str, Any] = _adapter(Recipe).dump_python(recipe, mode="json")
    for *tables, name in SILENT:
        table = reduce(getitem, tables, values)
        if table[name] is None:
            del table[name]
    try:
        values["partition"]["options"] = partition.resolve(recipe.partition)
    except DataError as error:
        raise UserError(f"{place}: {error}") from None
    return values


def reopen(values: Mapping[str, Any]) -> Cell:
    """The cell that a record tells of, as far as today's registry still knows it."""
    try:
        method, hp, recipe, seed = (values[key] for key in ("method", "hp", "recipe", "seed"))
    except (KeyError, TypeError):
        raise UserError("a cell needs the fields method, hp, recipe and seed") from None
    return build_cell(method, hp, recipe_from(recipe, "recipe of the record"), seed)


def residents(values: Mapping[str, Any]) -> int:
    """How many clients of a recipe, given as plain values, take part from the start."""
    late = values.get("newcomers")
    return int(values["clients"]) - (Newcomers(**late).count(values["clients"]) if late else 0)


# -- what a method needs ---------------------------------------------------------------------------


def unmet(cell: Cell) -> str:
    """Why this cell makes no sense, in words; empty when it does."""
    needs = entry(cell.method).needs
    recipe = cell.recipe
    if "bn" in needs and not _has_norm(recipe["model"], _input(recipe)):
        return f"{cell.method} needs normalisation layers, and {recipe['model']} has none"
    if "p2p" in needs and residents(recipe) < 2:
        return f"{cell.method} needs neighbours, and there is one client"
    return ""


def _input(recipe: Mapping[str, Any]) -> tuple[int, int]:
    """Channels and size of what a recipe's model is given."""
    from repfl.datasets.core import registry

    if recipe["input"]:
        return recipe["input"][0], recipe["input"][1]
    height, _, channels = registry.get(recipe["dataset"]).shape
    return channels, height


@lru_cache(maxsize=64)
def _has_norm(model: str, shape: tuple[int, int]) -> bool:
    """Whether a model has batch-norm statistics or affine normalisation parameters; true of every
    input shape or of none.
    """
    from repfl.algorithms.models import build

    layout = build(model, channels=shape[0], size=shape[1], classes=10).layout
    return any(part.kind == "norm" for part in layout)
