"""A cell: one method with its hyper-parameters, one recipe, one seed. Its id is the SHA-256 of its
canonical JSON.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from hashlib import sha256
from operator import getitem
from typing import Any

from repfl.bench.errors import UserError
from repfl.bench.grid.valid import adapter, entry, hyperparameters, recipe_from
from repfl.datasets.core.recipe import OMIT_IF_NONE, Recipe


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
        _RESOLVED[key] = adapter(type(checked)).dump_python(checked, mode="json")
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

    values: dict[str, Any] = adapter(Recipe).dump_python(recipe, mode="json")
    for *tables, name in OMIT_IF_NONE:
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


# -- a method and its options in one word: fedpurin[tau=0.3,bn=full] -------------------------------

SPEC = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[(?P<options>.*)\])?")


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
