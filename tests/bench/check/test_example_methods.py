"""The example methods keep the contract, bill what a hand counts, and follow their equations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.bench.check.contract import CONTRACT
from repfl.bench.check.situation import situations
from tests.algorithms import plain, toys
from tests.algorithms.examples import example

__all__ = ["example"]

NAMES = ("fedprox", "scaffold", "pfedme", "per-fedavg", "fedproto", "fedamp", "pfedhn")
EVEN = (24, 16, 8, 16)
BYTE = 8
"""Classes that a bitmap of one byte can name."""


@pytest.mark.parametrize("name", NAMES)
def test_examples_keep_the_contract(example: Callable[[str], Any], name: str) -> None:
    example(name)
    *_, half = situations(name)
    for promise in CONTRACT:
        promise(half)


def floats_by_hand(run: Run, name: str) -> tuple[float, float]:
    """Count the numbers that all clients send, and receive, in the last round; a bitmap of one
    byte is a quarter of a number.
    """
    fed = run.fed
    if name != "fedproto":
        models = 2 if name == "scaffold" else 1
        return fed.K * fed.D * models, fed.K * fed.D * models
    labels = [set(fed.data.labels[part].tolist()) for part in fed.data.train]
    width = fed.params.head_weight.shape[1]
    held, known = sum(map(len, labels)), len(set.union(*labels))
    return held * width + fed.K / 4, fed.K * (known * width + 1 / 4)


@pytest.mark.parametrize("name", NAMES)
def test_bytes_are_those_counted_by_hand(example: Callable[[str], Any], name: str) -> None:
    example(name)
    run = toys.run(name, sizes=EVEN, rounds=2)
    assert run.fed.classes <= BYTE
    for direction, floats in zip(("up", "down"), floats_by_hand(run, name), strict=True):
        lines = (f"{direction}_values", f"{direction}_codes")
        assert sum(toys.traffic(run, line)[-1] for line in lines) == 4 * floats


# -- gradients of gradients ------------------------------------------------------------------------


def meta_gradient(run: Run, flat: Tensor, alpha: float, *, first_order: bool) -> Tensor:
    """Return the gradient of the loss on the second half after a step on the first, by the book."""
    fed = run.fed
    ((x, y),) = plain.batches(fed, 0, 1, 1)
    half, leaf = len(y) // 2, flat.clone().requires_grad_()
    loss = plain.cross_entropy(plain.named(fed, leaf), x[:half], y[:half])
    (inner,) = torch.autograd.grad(loss, leaf, create_graph=not first_order)
    after = plain.named(fed, leaf - alpha * inner)
    (g,) = torch.autograd.grad(plain.cross_entropy(after, x[half:], y[half:]), leaf)
    return g


@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("stack", [1, 2])
def test_per_fedavg_differentiates_its_inner_step(
    example: Callable[[str], Any], first_order: bool, stack: int
) -> None:
    example("per-fedavg")
    hp = {"alpha": 0.5, "first_order": first_order}
    same = {"sizes": (8, 8), "batch": 8, "epochs": 1, "lr": 1.0, "dtype": torch.float64}
    run = toys.run("per-fedavg", hp, rounds=1, stack=stack, **same)
    start = run.fed.new_model()
    moved = start - run.fed.trained[0]  # type: ignore[index]
    expected = meta_gradient(run, start, 0.5, first_order=first_order)
    assert plain.apart(moved, expected) < 1e-12
    assert plain.apart(moved, meta_gradient(run, start, 0.5, first_order=not first_order)) > 1e-3


def test_a_parameter_that_a_loss_reads_twice_is_one_tensor() -> None:
    def squared_slope(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        loss = F.cross_entropy(model(batch.x), batch.y)
        (g,) = torch.autograd.grad(loss, [model.tensors["fc2.weight"]], create_graph=True)
        return loss + g.square().sum() + model.tensors["fc2.weight"].sum()

    fed = toys.run("fedavg", sizes=(8, 8), rounds=1, dtype=torch.float64).fed
    start = fed.new_model()
    end = fed.train(start.repeat(2, 1), loss=squared_slope, epochs=1, lr=1.0)[0]
    ((x, y),) = plain.batches(fed, 0, 1, 1)
    leaf = start.clone().requires_grad_()
    named = plain.named(fed, leaf)
    loss = plain.cross_entropy(named, x, y)
    (g,) = torch.autograd.grad(loss, [named["fc2.weight"]], create_graph=True)
    loss = loss + g.square().sum() + named["fc2.weight"].sum()
    (expected,) = torch.autograd.grad(loss, leaf)
    assert plain.apart(start - end, expected) < 1e-12
