"""Synthetic clients of any number and size, shaped like CIFAR-10."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.client_data import ClientData
from repfl.bench.check.toy_clients import toy_recipe

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def synchronise(device: str) -> None:
    """Wait until a device has finished."""
    if device == "cuda":
        torch.cuda.synchronize()


def cifar_shaped(sizes: tuple[int, ...], test: int = 0) -> ClientData:
    """Random images; all clients see the same ones, so that memory is the models' alone."""
    rng, most = np.random.default_rng(0), max(*sizes, test)
    images, labels = rng.integers(0, 256, (most, 32, 32, 3), np.uint8), rng.integers(0, 10, most)
    each = (sizes, [test] * len(sizes), [0] * len(sizes))
    splits = ([torch.arange(n) for n in numbers] for numbers in each)
    scale, shift = torch.full((3,), 1 / 255), torch.zeros(3)
    held = torch.from_numpy(images), torch.from_numpy(labels)
    return ClientData(*held, *splits, scale, shift, 10)


def federation(
    model: str,
    sizes: tuple[int, ...],
    device: str,
    *,
    test: int = 0,
    stack: int = 1,
    precision: str = "default",
    **protocol: Any,
) -> Federation:
    """Clients of the given sizes in their first round."""
    net = models.build(model, channels=3, size=32, classes=10)
    recipe = toy_recipe(clients=len(sizes), **{"epochs": 1, "lr": 0.01, **protocol})
    how: dict[str, Any] = {"device": device, "stack": stack, "precision": precision}
    fed = Federation(net, cifar_shaped(sizes, test), recipe, seed=0, **how)
    fed.begin(1)
    return fed


def run_of(
    method: str,
    model: str,
    sizes: tuple[int, ...],
    device: str = "cpu",
    *,
    kind: type[Run] = Run,
    test: int = 4,
    **protocol: Any,
) -> Run:
    """A started run of a method; it scores after its last round alone."""
    net = models.build(model, channels=3, size=32, classes=10)
    usual = {"rounds": 50, "epochs": 1, "lr": 0.01, "evaluation": {"every": 0}}
    recipe = toy_recipe(clients=len(sizes), **{**usual, **protocol})
    run = kind(build(method), recipe, cifar_shaped(sizes, test), net, seed=0, device=device)
    run.start()
    return run
