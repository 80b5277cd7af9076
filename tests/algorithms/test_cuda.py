"""On a GPU: a loop and a stack, run as they are or replayed as graphs, compute what a CPU computes.
Skipped where there is none.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import methods
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine import cuda_graphs
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from tests.algorithms import toys

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SIZES = (25, 7, 0, 40, 1, 16)
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # as workers do


@pytest.fixture(autouse=True)
def _deterministic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)


def run(name: str, device: str = "cuda", dtype: torch.dtype = torch.float64, **how: Any) -> Run:
    hp = dict(methods()[name].fast_hp)
    sizes = {"model": "tiny-bn", "sizes": SIZES, "rounds": 3}
    return toys.run(name, hp, dtype=dtype, device=device, **sizes, **how)


def same(one: Run, other: Run) -> bool:
    return all(
        torch.equal(value.cpu(), other.state[name].cpu()) for name, value in one.state.items()
    )


@pytest.mark.parametrize("name", sorted(methods()))
@pytest.mark.parametrize("stack", [1, 6])
@pytest.mark.parametrize("often", [2, 10**9])
def test_a_gpu_computes_what_a_cpu_computes(
    name: str, stack: int, often: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "OFTEN", often)
    cuda_graphs.capture.cache_clear()
    state = {k: v.cpu() for k, v in run(name, stack=stack).state.items()}
    assert toys.gap(state, run(name, "cpu").state) < 1e-9
    assert not cuda_graphs.capture().refused
    assert (cuda_graphs.capture().made > 0) == (often == 2)


@pytest.mark.parametrize("model", ["cnn4", "lenet5", "resnet8", "resnet18-gn"])
@pytest.mark.parametrize("stack", [1, 4])
def test_the_same_cell_gives_the_same_bits_twice(model: str, stack: int) -> None:
    how = {"model": model, "shape": (3, 32, 32), "sizes": (40, 33, 21, 12), "rounds": 2}
    one, other = (toys.run("fedavg", device="cuda", stack=stack, **how) for _ in range(2))
    assert same(one, other)


@pytest.mark.parametrize("stack", [1, 4])
def test_a_replayed_step_gives_the_bits_of_one_that_is_run(
    stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = {"model": "resnet8", "shape": (3, 32, 32), "sizes": (40, 40, 21, 40), "epochs": 3}
    found = []
    for often in (2, 10**9):
        monkeypatch.setattr(cuda_graphs, "OFTEN", often)
        found.append(toys.run("fedavg", device="cuda", stack=stack, momentum=0.9, **how))
    assert same(*found)


@pytest.mark.parametrize("stack", [1, 4])
def test_a_step_that_makes_the_gpu_wait_runs_as_it_is(
    stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_graphs, "OFTEN", 2)
    cuda_graphs.capture.cache_clear()

    def plain(client: Client, batch: Batch) -> None:
        client.update(client.grad(batch))

    def waiting(client: Client, batch: Batch) -> None:
        torch.cuda.synchronize()
        plain(client, batch)

    trained = []
    for device in ("cuda", "cpu"):
        waits = waiting if device == "cuda" else plain
        held = toys.data((40, 40, 40, 40))
        net = models.build("tiny", channels=1, size=8, classes=held.classes)
        how: dict[str, Any] = {"device": device, "dtype": torch.float64, "stack": stack}
        fed = Federation(net, held, toys.recipe(clients=4), seed=3, **how)
        fed.begin(1, all_clients=True)
        start = fed.new_model().expand(4, -1)
        trained.append(fed.train(start, step=waits).cpu())
    torch.testing.assert_close(*trained, rtol=0, atol=1e-9)
    assert len(cuda_graphs.capture().refused) == 1


def test_tensor_cores_train() -> None:
    whole, less = (run("fedavg", dtype=torch.float32, precision=p) for p in ("fp32", "default"))
    assert toys.gap(whole.state, less.state) < 0.05
