"""On a GPU: a loop and a stack compute what a CPU computes. Skipped where there is none."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.algorithms.core.run import Run
from tests.algorithms import toys

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SIZES = (25, 7, 0, 40, 1, 16)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as workers do


@pytest.fixture(autouse=True)
def _deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def run(name: str, device: str = "cuda", dtype: torch.dtype = torch.float64, **how: Any) -> Run:
    hp = dict(methods()[name].quick)
    sizes = {"model": "tiny-bn", "sizes": SIZES, "rounds": 3}
    return toys.run(name, hp, dtype=dtype, device=device, **sizes, **how)


def same(one: Run, other: Run) -> bool:
    return all(
        torch.equal(value.cpu(), other.state[name].cpu()) for name, value in one.state.items()
    )


@pytest.mark.parametrize("name", sorted(methods()))
@pytest.mark.parametrize("stack", [1, 6])
def test_a_gpu_computes_what_a_cpu_computes(name: str, stack: int) -> None:
    state = {k: v.cpu() for k, v in run(name, stack=stack).state.items()}
    assert toys.gap(state, run(name, "cpu").state) < 1e-9


@pytest.mark.parametrize("model", ["cnn4", "lenet5", "resnet8", "resnet18-gn"])
@pytest.mark.parametrize("stack", [1, 4])
def test_the_same_cell_gives_the_same_bits_twice(model: str, stack: int) -> None:
    how = {"model": model, "shape": (3, 32, 32), "sizes": (40, 33, 21, 12), "rounds": 2}
    one, other = (toys.run("fedavg", device="cuda", stack=stack, **how) for _ in range(2))
    assert same(one, other)


def test_half_precision_and_tensor_cores_train() -> None:
    whole = run("fedavg", dtype=torch.float32, precision="fp32")
    for precision, bar in (("tf32", 0.05), ("bf16", 0.3)):
        less = run("fedavg", dtype=torch.float32, precision=precision)
        assert toys.gap(whole.state, less.state) < bar
