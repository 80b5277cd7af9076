"""What there is: methods, models and artefacts, as plain data and as text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from repfl.bench.errors import choices, unknown
from repfl.bench.grid.cell import entry
from repfl.bench.grid.plan import Planned
from repfl.bench.grid.search import told
from repfl.bench.store.store import Store


def method_facts(name: str) -> dict[str, Any]:
    """Everything the registry says about a method."""
    known = entry(name)
    return {
        "name": known.name,
        "title": known.title,
        "paper": known.paper,
        "year": known.year,
        "family": known.family,
        "version": known.version,
        "needs": list(known.needs),
        "sends": known.sends,
        "variants": list(known.variants),
        "rule": inspect.cleandoc(known.cls.__doc__ or ""),
        "hyperparameters": hyperparameter_facts(known.cls.HP),
        "source": known.cls.__module__,
    }


def hyperparameter_facts(cls: Any) -> list[dict[str, Any]]:
    """Name, default, what papers use, valid range and meaning of every hyper-parameter."""
    schema = TypeAdapter(cls).json_schema()
    facts = []
    for name, field in schema.get("properties", {}).items():
        facts.append(
            {
                "name": name,
                "default": field.get("default"),
                "paper": field.get("paper"),
                "search": ", ".join(map(told, (field.get("search") or {}).items())),
                "valid": choices(field) or field.get("type", ""),
                "meaning": field.get("description", ""),
            }
        )
    return facts


def method_names() -> list[str]:
    from repfl.algorithms.core.method import methods

    return sorted(methods())


INPUTS = ((3, 32), (1, 28), (1, 8))
"""Channels and size that a model is described for: CIFAR-10's, MNIST's, the digits'."""
TINY = ("tiny", "tiny-bn")


def model_facts() -> list[dict[str, Any]]:
    """Every model with its number of parameters for a typical input."""
    from repfl.algorithms import models

    return [_model(name) for name in models.MODELS]


def _model(name: str) -> dict[str, Any]:
    """One model at the first input that it takes."""
    from repfl.algorithms import models
    from repfl.algorithms.engine.model import ModelError

    facts: dict[str, Any] = {"name": name, "input": [], "classes": 10, "note": ""}
    for channels, size in INPUTS[-1:] if name in TINY else INPUTS:
        try:
            built = models.build(name, channels=channels, size=size, classes=10)
        except ModelError as error:
            facts["note"] = facts["note"] or str(error)
            continue
        params = built.params
        return facts | {
            "input": [channels, size, size],
            "parameters": params.parameters,
            "statistics": params.size - params.parameters,
            "batch_norm": bool(params.stats.any()),
            "note": "",
        }
    return facts | {"parameters": 0, "statistics": 0, "batch_norm": False}


def partition_facts() -> list[dict[str, Any]]:
    """Every partition rule with its options."""
    from repfl.datasets.core import partition

    return [
        {
            "name": name,
            "rule": inspect.cleandoc(function.__doc__ or ""),
            "version": version,
            "options": hyperparameter_facts(options),
            "source": function.__module__,
        }
        for name, (function, options, version) in partition.partitioners().items()
    ]


def recipe_facts(scale: str, files: Sequence[Path]) -> list[dict[str, Any]]:
    """Every recipe of the papers' grids and of the given files, at a scale or else at the largest
    one that its grid has.
    """
    from repfl.bench.grid import grid as grids

    if scale not in grids.SCALES:
        raise unknown("scale", scale, grids.SCALES)
    found = []
    for path in [*grids.files().values(), *files]:
        grid = grids.read(path)
        at = max(grid.file.scales, key=lambda each: (each == scale, grids.SCALES.index(each)))
        for name in grid.file.recipes:
            recipe = grid.recipe(name, at)
            found.append(
                {
                    "name": f"{grid.paper}/{name}",
                    "label": grid.label(name),
                    "scale": at,
                    "dataset": recipe.dataset,
                    "model": recipe.model,
                    "clients": recipe.clients,
                    "partition": recipe.partition.rule,
                    "options": dict(recipe.partition.options),
                    "rounds": recipe.training.rounds,
                }
            )
    return found


def artefact_facts(plans: Mapping[str, Sequence[Planned]], store: Store) -> list[dict[str, Any]]:
    """Every artefact with its cells per scale: needed, done here, and measured by anybody."""
    from repfl.bench.cli.status import Statuses
    from repfl.bench.evidence import measured
    from repfl.bench.grid import grid as grids

    known = set(measured.ids())
    statuses, facts = Statuses(store), []
    for paper, path in grids.files().items():
        grid = grids.read(path)
        for name, artefact in grid.file.artefacts.items():
            scales = {}
            for scale, planned in plans.items():
                ids = {
                    item.cell.id
                    for item in planned
                    if item.paper == paper and item.artefact == name
                }
                scales[scale] = {
                    "cells": len(ids),
                    "done": sum(statuses.of(cell).status == "done" for cell in ids),
                    "measured": sum((paper, scale, cell) in known for cell in ids),
                }
            facts.append(
                {
                    "paper": paper,
                    "name": name,
                    "kind": artefact.kind,
                    "title": artefact.title,
                    "scales": scales,
                }
            )
    return facts
