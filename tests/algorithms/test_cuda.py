"""On a GPU: loops, stacks, lanes and graphs compute the same. Skipped where there is none."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from repfl.algorithms.core.graphs import CudaLane
from repfl.algorithms.core.method import methods
from tests.algorithms import toys

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SIZES = (25, 7, 0, 40, 1, 16)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as workers do


@pytest.fixture(autouse=True)
def _deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


class Bare(CudaLane):
    """A stream without graphs."""

    def record(self, work: Any) -> Any:
        raise RuntimeError("no records today")


def run(
    name: str, device: str = "cuda", dtype: torch.dtype = torch.float64, **lowering: Any
) -> Any:
    return toys.run(
        name,
        methods()[name].quick,
        model="tiny-bn",
        sizes=SIZES,
        dtype=dtype,
        lowering=lowering,
        device=device,
        rounds=3,
    )


def same(one: Any, other: Any) -> bool:
    return all(
        torch.equal(value.cpu(), other.state[name].cpu()) for name, value in one.state.items()
    )


@pytest.mark.parametrize("name", sorted(methods()))
@pytest.mark.parametrize(
    "how", [{"chunk": 1}, {"chunk": 6}, {"lanes": 3}, {"chunk": 3, "lanes": 2}], ids=str
)
def test_a_gpu_computes_what_a_cpu_computes(name: str, how: dict[str, int]) -> None:
    assert (
        toys.gap({k: v.cpu() for k, v in run(name, **how).state.items()}, run(name, "cpu").state)
        < 1e-9
    )


@pytest.mark.parametrize("name", sorted(methods()))
def test_graphs_give_the_bits_of_unrecorded_steps(name: str) -> None:
    recorded = run(name, dtype=torch.float32, lanes=3)
    assert recorded.fed.lanes.refusals == set()
    assert same(
        recorded, run(name, dtype=torch.float32, lanes=3, lane=lambda: Bare(torch.device("cuda")))
    )


@pytest.mark.parametrize("model", ["cnn4", "lenet5", "resnet8", "resnet18-gn"])
@pytest.mark.parametrize(
    "how",
    [
        {"lanes": 4},
        {"chunk": 4, "lanes": 1, "conv": "grouped"},
        {"chunk": 4, "lanes": 1, "conv": "matmul"},
    ],
    ids=str,
)
def test_the_same_cell_gives_the_same_bits_twice(model: str, how: dict[str, Any]) -> None:
    found = [
        toys.run(
            "fedavg",
            model=model,
            shape=(3, 32, 32),
            sizes=(40, 33, 21, 12),
            lowering=how,
            device="cuda",
            rounds=2,
        )
        for _ in range(2)
    ]
    assert same(*found)


def test_half_precision_and_tensor_cores_train() -> None:
    whole = run("fedavg", dtype=torch.float32, precision="fp32", lanes=3)
    for precision, bar in (("tf32", 0.05), ("bf16", 0.3)):
        assert (
            toys.gap(
                whole.state, run("fedavg", dtype=torch.float32, precision=precision, lanes=3).state
            )
            < bar
        )
