"""A cell: one method with its hyper-parameters, one recipe, one seed.

Its id is the SHA-256 of its canonical JSON.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import UserError
from repfl.bench.grid.methods import entry, hyperparameters, options_of, stored_values
from repfl.bench.grid.once import once
from repfl.bench.grid.recipes import check_partition, recipe_from, recipe_values, resolved, shape_of
from repfl.datasets.core.recipe import Recipe

if TYPE_CHECKING:
    from repfl.algorithms.core.method import Entry


def plain(value: Any) -> Any:
    """Return a JSON value in which equal numbers have one form: whole floats become integers,
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
"""Upper bound of seeds in NumPy's legacy generators, which drew the published partitions."""


@dataclass(frozen=True)
class Cell:
    """One experiment, fully resolved: validated objects, and JSON only at the edges."""

    method: str
    version: int
    hp: Any
    """The method's hyper-parameters, an instance of its `HP`."""
    recipe: Recipe
    seed: int
    inputs: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files that the method and the model declare to read, by name."""

    @cached_property
    def json(self) -> dict[str, Any]:
        """Everything that distinguishes this cell from any other, as JSON."""
        values = {
            "method": self.method,
            "version": self.version,
            "hp": plain(self.options),
            "recipe": _plain_recipe(self.recipe),
            "seed": self.seed,
        }
        return values | ({"inputs": dict(self.inputs)} if self.inputs else {})

    @property
    def options(self) -> dict[str, Any]:
        """The hyper-parameters as JSON has them; cells of a row share them, so do not change it."""
        return _stored_options(self.hp)

    @cached_property
    def id(self) -> str:
        """The SHA-256 of the canonical JSON."""
        return sha256(_written(self.json).encode()).hexdigest()  # which is plain already

    @property
    def short(self) -> str:
        """A prefix of the id, for display."""
        return self.id[:12]

    @property
    def rounds(self) -> int:
        return self.recipe.training.rounds

    def __str__(self) -> str:
        return f"{self.method} on {self.recipe.dataset}, seed {self.seed} ({self.short})"


@once
def _plain_recipe(recipe: Recipe) -> Any:
    """Return a recipe as plain JSON."""
    return plain(recipe_values(recipe))


_stored_options = once(stored_values)
_HP: dict[tuple[Any, str], Any] = {}
"""Validated hyper-parameters, cached because grids repeat them for every recipe and seed."""


def build_cell(
    method: str,
    hp: Mapping[str, Any],
    recipe: Recipe,
    seed: int,
    location: str = "",
    *,
    inputs: Mapping[str, str] | None = None,
) -> Cell:
    """Return the cell of a method, its hyper-parameters, a recipe and a seed; raise a one-line
    error if one of them is not valid. `inputs` are the hashes of a stored cell's files; None: hash
    the files as they are now.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < MAX_SEED:
        raise UserError(
            f"{location + ': ' if location else ''}seed = {seed!r} is not valid; valid: a whole"
            f" number >= 0 and < {MAX_SEED}"
        )
    method_entry = entry(method, location)
    key = (method_entry.cls, repr(hp))
    if key not in _HP:
        _HP[key] = hyperparameters(method, hp, location)
    if inputs is None:
        check_partition(recipe)
        inputs = _input_hashes(method_entry, recipe.model, location)
    return Cell(method_entry.name, method_entry.version, _HP[key], resolved(recipe), seed, inputs)


def _input_hashes(method_entry: Entry, model: str, location: str) -> dict[str, str]:
    """Hash the files that a method and a model declare."""
    from repfl.algorithms import models

    who, hashes = f"method {method_entry.name!r}", {}
    try:
        if method_entry.files:
            folder = Path(str(sys.modules[method_entry.cls.__module__].__file__)).parent
            hashes = {n: _hash(folder / n, _state(folder / n)) for n in method_entry.files}
        who = f"model {model!r}"
        return hashes | {
            f"model/{path.name}": _hash(path, _state(path)) for path in models.FILES.get(model, ())
        }
    except OSError as error:
        raise UserError(
            f"{location + ': ' if location else ''}{who} declares the file {error.filename}:"
            f" {error.strerror}"
        ) from None


@lru_cache(maxsize=64)
def _hash(path: Path, _state: tuple[int, ...]) -> str:
    """Return a file's hash, computed again only if the file has changed."""
    return sha256(path.read_bytes()).hexdigest()


def _state(path: Path) -> tuple[int, ...]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def from_json(values: Mapping[str, Any]) -> Cell:
    """Return the cell of a record, with the input files it had; raise a UserError if it no longer
    exists.
    """
    try:
        method, hp, recipe, seed = (values[key] for key in ("method", "hp", "recipe", "seed"))
    except (KeyError, TypeError):
        raise UserError("a cell needs the fields method, hp, recipe and seed") from None
    parsed = recipe_from(recipe, "recipe of the record")
    return build_cell(method, hp, parsed, seed, inputs=values.get("inputs", {}))


def unmet(cell: Cell) -> str:
    """Return why a method cannot run on a recipe; empty if it can."""
    needs, recipe = entry(cell.method).needs, cell.recipe
    if "bn" in needs and not _has_norm(*shape_of(recipe)):
        return f"{cell.method} needs normalisation layers, and {recipe.model} has none"
    if "p2p" in needs and recipe.residents < 2:
        return f"{cell.method} needs neighbours, and there is one client"
    if "epochs" in needs and not recipe.training.has_whole_epochs:
        return f"{cell.method} divides a round's epochs, and training.epochs is no whole number"
    if "public" in needs and recipe.public is None:
        return f"{cell.method} needs public samples: public = {{ samples = 500 }} in the recipe"
    return ""


@lru_cache(maxsize=64)
def _has_norm(model: str, channels: int, size: int, classes: int) -> bool:
    """Return whether a model has normalisation layers with parameters."""
    from repfl.algorithms import models

    built = models.build(model, channels=channels, size=size, classes=classes)
    return bool(built.params.norm.any())


def changed_options(method: str, hp: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyper-parameters that differ from the method's defaults; all, if it is unknown."""
    try:
        defaults = plain(options_of(hyperparameters(method, {}), hp))
    except (UserError, KeyError):
        return dict(hp)  # of a plug-in that is not loaded
    return {
        name: value for name, value in hp.items() if (name, plain(value)) not in defaults.items()
    }
