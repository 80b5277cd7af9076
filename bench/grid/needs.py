"""What a cell needs to make sense and to run, and how many clients it has."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from repfl.bench.errors import one_line
from repfl.bench.grid.cell import Cell
from repfl.bench.grid.valid import entry, known_entry
from repfl.datasets.core.recipe import Newcomers


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

    params = build(model, channels=shape[0], size=shape[1], classes=10).params
    return any(part.kind == "norm" for part in params)


def participants(method: str, recipe: Mapping[str, Any]) -> int:
    """How many clients a cell trains in a round."""
    from repfl.algorithms.core.recipe import cohort_size

    known, clients = known_entry(method), residents(recipe)
    everybody = known is not None and known.cls.decentralised
    return clients if everybody else cohort_size(clients, recipe["participation"])


def residents(values: Mapping[str, Any]) -> int:
    """How many clients of a recipe, given as plain values, take part from the start."""
    late = values.get("newcomers")
    return int(values["clients"]) - (Newcomers(**late).count(values["clients"]) if late else 0)


@lru_cache(maxsize=64)
def data_absent(dataset: str) -> str:
    """Why a dataset cannot be opened; empty when it can."""
    from repfl.bench.grid import plugins
    from repfl.datasets.core import registry
    from repfl.datasets.core.errors import DataError

    if registry.get(dataset).embedded and plugins.origin("dataset", dataset) is None:
        return ""  # in a library without which repfl is not installed
    from repfl.datasets.core.cache import open_dataset

    try:
        open_dataset(dataset)
    except DataError as error:
        return one_line(error)
    return ""
