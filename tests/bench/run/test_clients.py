"""Cells share clients if, and only if, their recipes agree on who holds what and as what."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from repfl.algorithms.core.training import TrainingProtocol
from repfl.bench.run.clients import Clients, clients_of
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


def shown(clients: Clients) -> tuple[Any, ...]:
    """What differs between clients that are not the same."""
    data = clients.data
    return (
        clients.digest,
        clients.model.name,
        clients.newcomers is None,
        data.clients,
        data.classes,
        data.shape,
        data.augment,
        tuple(data.scale.tolist()),
        clients.samples,
    )


def test_every_field_of_a_recipe_is_of_the_protocol_or_decides() -> None:
    protocol = {field.name for field in fields(TrainingProtocol)} - {"newcomers"}
    known = {field.name for field in fields(Recipe)} - protocol - {"dataset"}
    assert known == set(DECIDES)


@pytest.mark.parametrize("name", DECIDES)
def test_clients_of_another_recipe_are_others_whoever_came_before(name: str) -> None:
    usual = clients_of(task().cell)
    other = clients_of(task(**{name: DECIDES[name]}).cell)
    assert other is not usual
    assert shown(other) != shown(usual)


def test_clients_are_shared_by_methods_and_protocols() -> None:
    usual = clients_of(task().cell)
    assert clients_of(task("local", training={"lr": 0.3}, evaluation={"every": 2}).cell) is usual
    assert clients_of(task(seed=1).cell) is not usual
