"""What there is: methods, models and artefacts, as plain data and as text."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter

from repfl.algorithms.core.space import told
from repfl.bench.cells.cell import entry
from repfl.bench.cells.plan import Planned
from repfl.bench.errors import choices
from repfl.bench.records.store import Store


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
                "search": told(field["search"]) if field.get("search") else "",
                "valid": choices(field) or field.get("type", ""),
                "meaning": field.get("description", ""),
            }
        )
    return facts


def method_names() -> list[str]:
    from repfl.algorithms.core.method import methods

    return sorted(methods())


MODEL_INPUTS = {"tiny": (1, 8, 10), "tiny-bn": (1, 8, 10)}
"""Channels, size and classes that a model is described for; the others at CIFAR-10's."""


def model_facts() -> list[dict[str, Any]]:
    """Every model with its number of parameters for a typical input."""
    from repfl.algorithms import models

    facts = []
    for name in models.MODELS:
        channels, size, classes = MODEL_INPUTS.get(name, (3, 32, 10))
        layout = models.build(name, channels=channels, size=size, classes=classes).layout
        facts.append(
            {
                "name": name,
                "input": [channels, size, size],
                "classes": classes,
                "parameters": layout.parameters,
                "statistics": layout.size - layout.parameters,
                "batch_norm": bool(layout.stats.any()),
            }
        )
    return facts


def artefact_facts(plans: Mapping[str, Sequence[Planned]], store: Store) -> list[dict[str, Any]]:
    """Every artefact with its cells, needed and done, per scale."""
    from repfl.bench.cells import grid as grids
    from repfl.bench.cli.status import Statuses

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
