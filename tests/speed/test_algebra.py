"""What servers and gossip cost beside training: less than a twentieth of a round of 100 clients
with a million entries each.

A round is 100 clients x 5 epochs x 500 images in batches of 100 (CIFAR-10's training images divided
among them), on cnn4's 878,538 entries. Its algebra is all that a round does apart from local
training, scoring and losses on peers' data. Both are processor time of one thread, so that other
work on the machine counts as little as possible; training is timed on one client and multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.params import Params
from repfl.algorithms.engine.training import Trained
from repfl.algorithms.math.critical import critical
from repfl.algorithms.math.importance import above_quantile
from repfl.algorithms.math.masks import holders_mean
from tests.speed import roofline
from tests.speed.clients import federation, run_of
from tests.speed.conftest import Figure

pytestmark = pytest.mark.speed
CLIENTS, SAMPLES = 100, 500
SETTING: dict[str, Any] = {"epochs": 5, "batch": 100, "momentum": 0.9}
METHODS = ("fedavg", "fedpurin", "fedcac", "fedobp", "dfedpgp", "dis-pfl", "pfeddst")


class Untrained(Federation):
    """Local training that moves every entry a little, in no time that counts."""

    aside = 0.0

    def train_with(self, step: Any, params: Mapping[str, Tensor], **how: Any) -> Trained:
        begun = process_time()
        moved = {name: flat * 1.001 for name, flat in params.items()}
        grad = moved["params"] * 0.1 if "last_grad" in how.get("keep", ()) else None
        self.aside += process_time() - begun
        return Trained(moved, dict(how.get("extras") or {}), grad, None, {})

    def for_each_batch(self, step: Any, params: Mapping[str, Tensor], **how: Any) -> Trained:
        return Trained(dict(params), dict(how.get("extras") or {}), None, None, {})


class UntrainedRun(Run):
    """A run of nothing but algebra."""

    federation = Untrained

    def algebra(self) -> float:
        """Processor seconds of a round."""
        assert isinstance(self.fed, Untrained)
        self.fed.aside, begun = 0.0, process_time()
        self.step()
        return process_time() - begun - self.fed.aside


@cache
def training() -> float:
    """Processor seconds that 100 clients train."""
    fed = federation("cnn4", (SAMPLES,), "cpu", **SETTING)
    spent = []
    for _ in range(3):
        begun = process_time()
        fed.train(fed.new_model()[None])
        spent.append(process_time() - begun)
    return CLIENTS * median(spent)


@pytest.mark.parametrize("method", METHODS)
def test_algebra_of_100_clients_takes_less_than_a_twentieth_of_a_round(
    figure: Figure, method: str
) -> None:
    run = run_of(method, "cnn4", (SAMPLES,) * CLIENTS, kind=UntrainedRun, **SETTING)
    run.step()
    assert isinstance(run, UntrainedRun)
    share = figure.once(
        lambda: median(run.algebra() for _ in range(2)) / training(), "of a round's training"
    )
    assert share < 0.05


# -- one operation at a time -----------------------------------------------------------------------


@lru_cache(maxsize=4)
def models(clients: int, size: int) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((clients, size), np.float32))


def operations(x: Tensor) -> dict[str, Callable[[], Any]]:
    """What servers and gossip are made of, on clients' models [N, D]."""
    clients, size = x.shape
    tensors = Params([("w", (size,), "linear", False)]).trained
    everything, held = torch.ones(size, dtype=torch.bool), x > 0
    weights, ring = (
        torch.full((clients,), 1 / clients),
        topology.row_stochastic(_pulled(clients)).float(),
    )
    return {
        "mean": lambda: weights @ x,
        "top share": lambda: critical(x, 0.5, tensors, "empty", 1e-10),
        "holders' mean": lambda: holders_mean(x, held, weights, x[0]),
        "gossip": lambda: topology.mix(x, ring, everything),
        "gossip of masked entries": lambda: topology.mix(x, ring, held, renormalise=True),
        "quantile": lambda: above_quantile(x, 0.9999, tensors, "global"),
    }


def _pulled(clients: int) -> Tensor:
    """Everybody hears ten others."""
    return topology.Topology(clients, lambda _: np.random.default_rng(0), torch.device("cpu")).pull(
        10
    )


READS = {
    "mean": 1,
    "top share": 1.25,
    "holders' mean": 1.25,
    "gossip": 2,
    "gossip of masked entries": 2.25,
    "quantile": 1.25,
}
"""How often an operation must at least pass over all models in memory."""


@pytest.mark.parametrize("operation", READS)
@pytest.mark.parametrize("clients", [100, 1000])
def test_operation_on_a_million_entries(figure: Figure, clients: int, operation: str) -> None:
    size = (
        1_000_000 if clients == 100 else 100_000
    )  # the same memory; the cost of a thousand clients of a million follows from the slopes
    x = models(clients, size)
    products = 2 * clients * x.numel() if operation.startswith("gossip") else 0
    least = roofline.Work(products, READS[operation] * x.nbytes).seconds("cpu") / x.numel()
    assert figure.rate(operations(x)[operation], x.numel(), "entries/s", least=least, rounds=3) > 0
