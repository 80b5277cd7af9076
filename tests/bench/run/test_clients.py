"""Cells share clients if, and only if, their recipes agree on who holds what and as what."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from repfl.algorithms.core.settings import TrainingProtocol
from repfl.bench.run.clients import clients_of
from repfl.datasets.core.recipe import Recipe
from tests.bench.conftest import RECIPE, task

OPTIONS = {**RECIPE["partition"]["options"], "alpha": 5.0}
DECIDES: dict[str, Any] = {
    "model": "tiny-bn",
    "clients": 3,
    "partition": {**RECIPE["partition"], "options": OPTIONS},
    "norm": "raw",
    "augment": "flip",
    "input": [3, 16, 16],
    "classes": 12,
    "public": {"samples": 6},
    "newcomers": {"share": 0.5, "samples": 5, "epochs": 1},
}
"""Another value of every field that decides; there is one data set for tests."""


def shown(**changes: Any) -> tuple[Any, ...]:
    """What differs between clients that are not the same."""
    clients = clients_of(task(**changes).cell)
    data = clients.data
    shape = (data.clients, data.classes, data.shape, data.augment, tuple(data.scale.tolist()))
    return (clients.digest, clients.model.name, clients.newcomers is None, clients.samples, *shape)


def test_every_field_of_a_recipe_is_of_the_protocol_or_decides_who_holds_what() -> None:
    protocol = {field.name for field in fields(TrainingProtocol)} - {"newcomers"}
    known = {field.name for field in fields(Recipe)} - protocol - {"dataset"}
    assert known == set(DECIDES)
    for name, value in DECIDES.items():  # whoever came before
        assert shown() != shown(**{name: value}), name


def test_clients_are_shared_by_methods_and_protocols() -> None:
    usual = clients_of(task().cell)
    assert clients_of(task("local", training={"lr": 0.3}, evaluation={"every": 2}).cell) is usual
    assert clients_of(task(seed=1).cell) is not usual
