"""A cell: one method with its hyper-parameters, one recipe, one seed.

Its id is the SHA-256 of its canonical JSON.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError, unknown
from repfl.bench.grid.recipes import (
    adapter,
    check_partition,
    recipe_from,
    recipe_values,
    residents,
    validated,
)
from repfl.datasets.core.recipe import Recipe

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry


def plain(value: Any) -> Any:
    """Return a value as JSON has it, with one form for equal numbers: whole floats become integers,
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
    """Return canonical JSON: sorted keys, no spaces, equal numbers written alike."""
    return _written(plain(value))


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


MAX_SEED = 2**32
"""As NumPy's legacy generators take them, which published partitions were drawn with."""


@dataclass(frozen=True)
class Cell:
    """One experiment, fully resolved."""

    method: str
    version: int
    hp: Mapping[str, Any]
    recipe: Mapping[str, Any]
    seed: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files that the method declares to read, by name."""

    @cached_property
    def json(self) -> dict[str, Any]:
        """Everything that distinguishes this cell from any other."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        if not self.inputs:
            del values["inputs"]
        return plain(values)

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the canonical JSON."""
        return sha256(_written(self.json).encode()).hexdigest()  # which is plain already

    @property
    def short(self) -> str:
        """Enough of the id to distinguish cells on a screen."""
        return self.id[:12]

    @property
    def rounds(self) -> int:
        return int(self.recipe["training"]["rounds"])

    def __str__(self) -> str:
        return f"{self.method} on {self.recipe['dataset']}, seed {self.seed} ({self.short})"


def build_cell(
    method: str,
    hp: Mapping[str, Any],
    recipe: Recipe,
    seed: int,
    place: str = "",
    *,
    inputs: Mapping[str, str] | None = None,
) -> Cell:
    """Return the cell of a method, its hyper-parameters, a recipe and a seed; refuse in one line
    what is wrong. `inputs` are the hashes of a stored cell's files; None: it is to be
    computed, with the files of today.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < MAX_SEED:
        raise UserError(
            f"{place + ': ' if place else ''}seed = {seed!r} is not valid; valid: a whole number"
            f" >= 0 and < {MAX_SEED}"
        )
    key = (entry(method, place).cls, repr(hp))
    if key not in _RESOLVED:
        checked = hyperparameters(method, hp, place)
        _RESOLVED[key] = adapter(checked.__class__).dump_python(checked, mode="json")
    known = entry(method)
    if inputs is None:
        check_partition(recipe)
        inputs = _input_hashes(known, place) if known.files else {}
    return Cell(method, known.version, _RESOLVED[key], recipe_values(recipe), seed, inputs)


def _input_hashes(known: Entry, place: str) -> dict[str, str]:
    """Hash the files that a method declares, whose names count from the folder of its module."""
    folder = Path(str(sys.modules[known.cls.__module__].__file__)).parent
    try:
        return {name: _hash(folder / name, _state(folder / name)) for name in known.files}
    except OSError as error:
        raise UserError(
            f"{place + ': ' if place else ''}method {known.name!r} declares the file"
            f" {error.filename}: {error.strerror}"
        ) from None


@lru_cache(maxsize=64)
def _hash(path: Path, _state: tuple[int, ...]) -> str:
    """Hash a file, again only if it has changed."""
    return sha256(path.read_bytes()).hexdigest()


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


_RESOLVED: dict[tuple[Any, str], dict[str, Any]] = {}
"""All hyper-parameters as plain values; computed once, since grids repeat them by recipe and
seed.
"""


def reopen(values: Mapping[str, Any]) -> Cell:
    """Return the cell of a record, with the input files it had, if today's registry still has its
    method.
    """
    try:
        method, hp, recipe, seed = (values[key] for key in ("method", "hp", "recipe", "seed"))
    except (KeyError, TypeError):
        raise UserError("a cell needs the fields method, hp, recipe and seed") from None
    found = recipe_from(recipe, "recipe of the record")
    return build_cell(method, hp, found, seed, inputs=values.get("inputs", {}))


# -- methods and their hyper-parameters ------------------------------------------------------------


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
    fields = adapter(cls).json_schema().get("properties", {})
    kinds = {key: {each.get("type") for each in f.get("anyOf", ())} for key, f in fields.items()}
    return frozenset(key for key, each in kinds.items() if "null" in each and "string" not in each)


def search_space(name: str, place: str = "") -> dict[str, tuple[str, list[Any]]]:
    """Return the hyper-parameters of a method that a search tries, each with a range."""
    fields = adapter(entry(name, place).cls.HP).json_schema().get("properties", {})
    return {
        key: next(iter(field["search"].items()))
        for key, field in fields.items()
        if field.get("search")
    }


def options_of(checked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return some hyper-parameters as plain values, under the names they are stored by; also those
    that are not stored because they have their defaults.
    """
    from repfl.algorithms.core.method import field_of

    values = adapter(checked.__class__).dump_python(checked, mode="json")
    fields = [field_of(checked.__class__, name) for name in names]
    return {field: values.get(field, getattr(checked, field)) for field in fields}


def participants(method: str, recipe: Mapping[str, Any]) -> int:
    """Return how many clients a cell trains in a round."""
    from repfl.algorithms.core.recipe import cohort_size

    known, clients = known_entry(method), residents(recipe)
    decentralised = known is not None and known.cls.decentralised
    return clients if decentralised else cohort_size(clients, recipe["participation"])


def unmet(cell: Cell) -> str:
    """Return why a method makes no sense on a recipe; empty if it does."""
    needs, recipe = entry(cell.method).needs, cell.recipe
    if "bn" in needs and not _has_norm(recipe["model"], *_input(recipe)):
        return f"{cell.method} needs normalisation layers, and {recipe['model']} has none"
    if "p2p" in needs and residents(recipe) < 2:
        return f"{cell.method} needs neighbours, and there is one client"
    return ""


def _input(recipe: Mapping[str, Any]) -> tuple[int, int]:
    """Return channels and height of what a recipe's model is given."""
    from repfl.datasets.core import registry

    if recipe["input"]:
        return recipe["input"][0], recipe["input"][1]
    height, _, channels = registry.get(recipe["dataset"]).shape
    return channels, height


@lru_cache(maxsize=64)
def _has_norm(model: str, channels: int, size: int) -> bool:
    """Return whether a model has normalisation layers with parameters."""
    import torch

    from repfl.algorithms.engine.model import NORMS
    from repfl.algorithms.models import MODELS

    with torch.random.fork_rng(devices=[]):
        layers = MODELS[model](channels, size, 10).modules()
    return any(list(layer.parameters()) for layer in layers if isinstance(layer, NORMS))


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
