"""Small federations for tests of the engine and of methods."""

from __future__ import annotations

from typing import Any

import torch

from algorithms import models
from algorithms.core.data import ClientData
from algorithms.core.method import build
from algorithms.core.run import Run
from bench.contract import RAGGED, gap, toy_data, toy_recipe

EQUAL = (24, 24, 24, 24)
data, recipe = toy_data, toy_recipe
__all__ = ["EQUAL", "RAGGED", "data", "gap", "recipe", "run"]


def run(
    method: str,
    hp: dict[str, Any] | None = None,
    *,
    model: str = "tiny",
    sizes: tuple[int, ...] = RAGGED,
    chunk: int = 1,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    clients_data: ClientData | None = None,
    rounds: int | None = None,
    **protocol: Any,
) -> Run:
    """Run a method on toy clients to the end (or for some rounds)."""
    held = clients_data or data(sizes)
    net = models.build(model, channels=1, size=8, classes=held.classes)
    done = Run(build(method, hp), recipe(clients=held.clients, **protocol), held, net, seed=seed, dtype=dtype, chunk=chunk)
    done.start()
    for _ in range(rounds or done.fed.rounds):
        done.step()
    return done
