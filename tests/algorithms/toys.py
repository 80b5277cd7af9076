"""Small federations for tests of the engine and of methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from repfl.algorithms import models
from repfl.algorithms.core.method import Method, build
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.model import Model
from repfl.bench.check.situation import gap
from repfl.bench.check.toy_clients import RAGGED, toy_data, toy_recipe

EQUAL = (24, 24, 24, 24)
data, recipe = toy_data, toy_recipe
__all__ = ["EQUAL", "RAGGED", "data", "everybody", "gap", "recipe", "run", "traffic"]


def run(
    method: str | Method,
    hp: dict[str, Any] | None = None,
    *,
    model: str | Model = "tiny",
    sizes: tuple[int, ...] = RAGGED,
    stack: int = 1,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    clients_data: ClientData | None = None,
    rounds: int | None = None,
    device: str = "cpu",
    precision: str = "default",
    shape: tuple[int, int, int] = (1, 8, 8),
    **protocol: Any,
) -> Run:
    """Run a method on toy clients to the end (or for some rounds)."""
    held = replace(clients_data or data(sizes), shape=None if shape == (1, 8, 8) else shape)
    net = (
        models.build(model, channels=shape[0], size=shape[1], classes=held.classes)
        if isinstance(model, str)
        else model
    )
    rule = build(method, hp) if isinstance(method, str) else method
    how = {"device": device, "dtype": dtype, "stack": stack, "precision": precision}
    done = Run(rule, recipe(clients=held.clients, **protocol), held, net, seed=seed, **how)
    done.start()
    for _ in range(rounds or done.fed.rounds):
        done.step()
    return done


def module(net: nn.Module, shape: tuple[int, int, int] = (1, 8, 8), classes: int = 4) -> Model:
    """Return a plain module as a model."""
    from copy import deepcopy

    return Model("plain", lambda: deepcopy(net), shape, classes)


def everybody(run: Run) -> torch.Tensor:
    """Return all clients' scored models  [N, D]."""
    with run.fed.as_active(range(run.fed.N)):
        found = run.scored_models()
    assert isinstance(found, torch.Tensor)
    return found


def traffic(run: Run, line: str) -> list[float]:
    """Return the bytes of every round, such as `up_values`."""
    return [value for _, name, value in run.rows if name == f"traffic/{line}"]
