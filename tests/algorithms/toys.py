"""Small federations for tests of the engine and of methods."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from repfl.algorithms import models
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.method import Method, build
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.run import Run
from repfl.bench.trust.contract import gap
from repfl.bench.trust.toys import RAGGED, toy_data, toy_recipe

EQUAL = (24, 24, 24, 24)
data, recipe = toy_data, toy_recipe
__all__ = ["EQUAL", "RAGGED", "data", "everybody", "gap", "headless", "recipe", "run", "traffic"]


def run(
    method: str | Method,
    hp: dict[str, Any] | None = None,
    *,
    model: str | Model = "tiny",
    sizes: tuple[int, ...] = RAGGED,
    chunk: int = 1,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    clients_data: ClientData | None = None,
    rounds: int | None = None,
    lowering: dict[str, Any] | None = None,
    device: str = "cpu",
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
    how = {"device": device, "dtype": dtype, "chunk": chunk, **(lowering or {})}
    done = Run(rule, recipe(clients=held.clients, **protocol), held, net, seed=seed, **how)
    done.start()
    for _ in range(rounds or done.fed.rounds):
        done.step()
    return done


def headless(model: str = "tiny", classes: int = 4) -> Model:
    """The same network, but no layer of it counts as the head."""
    net = models.build(model, channels=1, size=8, classes=classes)
    return Model(
        net.name, tuple((*spec[:3], False, spec[4]) for spec in net.specs), net._body, net._head
    )


def everybody(run: Run) -> torch.Tensor:
    """All clients' scored models  [N, D]."""
    with run.fed.among(run.fed.everybody):
        return run.method.personal(run.state, run.fed)


def traffic(run: Run, line: str) -> list[float]:
    """Bytes of every round, such as `up_values`."""
    return [value for _, name, value in run.rows if name == f"traffic/{line}"]
