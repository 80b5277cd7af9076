"""The speed that a device cannot exceed: operations over its measured peak, bytes over its measured
bandwidth, whichever takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from tests.speed.clients import synchronise
from tests.speed.plain import Plain


def seconds(work: Callable[[], Any], device: str = "cpu", repeats: int = 5) -> float:
    """Median of a few runs after one that warms up."""
    spent = []
    for _ in range(repeats + 1):
        synchronise(device)
        begun = perf_counter()
        work()
        synchronise(device)
        spent.append(perf_counter() - begun)
    return median(spent[1:])


@cache
def peak(device: str) -> float:
    """Operations per second of a large matrix product in float32."""
    size = 8192 if device == "cuda" else 1536
    one = torch.ones(size, size, device=device)
    return 2 * size**3 / seconds(lambda: one @ one, device)


@cache
def bandwidth(device: str) -> float:
    """Bytes per second of a large copy, read and written."""
    one = torch.ones(1 << (28 if device == "cuda" else 25), device=device)
    other = torch.empty_like(one)
    return 2 * one.nbytes / seconds(lambda: other.copy_(one), device)


@dataclass(frozen=True)
class Work:
    """What something takes at least."""

    operations: float
    bytes: float

    def seconds(self, device: str) -> float:
        """No implementation that computes the same in float32 can be quicker."""
        return max(self.operations / peak(device), self.bytes / bandwidth(device))


def of_step(plain: Plain) -> Work:
    """One training step: operations as PyTorch counts them; each saved activation is written and
    read once; a parameter is read forwards, backwards and by the optimiser, which writes it, and
    its gradient is written and read.
    """
    saved: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.nbytes
        return tensor

    with (
        FlopCounterMode(display=False) as counter,
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
    ):
        plain.loss(plain.own[: plain.batch]).backward()
    parameters = sum(p.nbytes for p in plain.net.parameters())
    return Work(counter.get_total_flops(), 6 * parameters + 2 * sum(saved.values()))


def of_scoring(plain: Plain, samples: int) -> Work:
    """A forward pass: operations, parameters and images once."""
    with FlopCounterMode(display=False) as counter:
        plain.score(samples)
    return Work(
        counter.get_total_flops(),
        sum(p.nbytes for p in plain.net.parameters()) + plain.images[:samples].nbytes,
    )
