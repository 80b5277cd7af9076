"""No cell of the gate depends on how a processor rounds.

Processors add in different orders, so results differ in their last bits. A gate that compares them
needs cells in which no such difference decides: which of two equal maxima is first, or which of two
equal scores is larger. Here every layer's output gets noise far above rounding and far below the
gate's tolerance, and nothing may move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from repfl.algorithms.engine.rng import Streams
from repfl.bench.check import gate
from tests.plant.asked import narrow

NOISE = 1e-13
LAYERS = {"conv2d", "linear", "bmm", "baddbmm", "matmul", "batch_norm", "group_norm"}


class Rounding(TorchFunctionMode):
    """Multiply every output of a layer by 1 + noise, element by element. Zeros stay zeros."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.noise = NOISE * torch.from_numpy(Streams(seed).at("noise").standard_normal(1 << 20))
        self.start = 0
        self.layers = 0

    def __torch_function__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in LAYERS or out.dtype != torch.float64:
            return out
        self.layers += 1
        self.start = (self.start + 7919) % (len(self.noise) - out.numel())
        noise = self.noise[self.start : self.start + out.numel()]
        return out * (1 + noise.view(out.shape))


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """What the gate says of some methods if layers round in another way."""
    monkeypatch.setattr("repfl.bench.run.runner.choose_executor", lambda *_: ("inline", 1))

    def check(methods: Sequence[str], seed: int, *recipes: str) -> list[str]:
        if recipes:
            narrow(gate, methods, recipes, monkeypatch.setattr)
        with Rounding(seed) as rounding:
            found = gate.check(None, methods, 1)
        assert rounding.layers > 100 * found.cells
        return [f"{move.spec} {move.recipe}: {move.why}" for move in found.moved]

    return check


def test_rounding_decides_nothing_in_a_method_that_zeroes_weights(
    moved: Callable[..., list[str]],
) -> None:
    assert moved(["fedpurin"], 0, "cohort") == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_rounding_decides_nothing_in_any_method(moved: Callable[..., list[str]], seed: int) -> None:
    assert moved([], seed) == []
