"""What servers and gossip cost beside training: less than a tenth of a round of 100 clients
with a million entries each.

A round is 100 clients x 5 epochs x 500 images in batches of 100 (CIFAR-10's training images divided
among them), on cnn4's 878,538 entries. Its algebra is all that a round does apart from local
training, scoring and losses on peers' data. Both are processor time of one thread, so that other
work on the machine counts as little as possible; training is timed on one client and multiplied.
"""

from __future__ import annotations

from functools import cache
from statistics import median
from time import process_time
from typing import Any

import pytest

from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.training import Inputs, Trained
from tests.speed.clients import federation, run_of
from tests.speed.conftest import Figure

pytestmark = pytest.mark.speed
CLIENTS, SAMPLES = 100, 500
SETTING: dict[str, Any] = {"epochs": 5, "batch": 100, "momentum": 0.9}
METHODS = ("fedavg", "fedpurin", "fedcac", "fedobp", "dfedpgp", "dis-pfl", "pfeddst")


class Untrained:
    """Local training that moves every entry a little, in no time that counts."""

    aside = 0.0

    def train(self, step: Any, plans: Any, inputs: Inputs, optimiser: Any) -> Trained:
        begun = process_time()
        moved = {name: flat * 1.001 for name, flat in inputs.params.items()}
        grad = moved["params"] * 0.1 if "last_grad" in inputs.keep else None
        self.aside += process_time() - begun
        return Trained(moved, dict(inputs.extras), grad, None, {})

    def run(self, step: Any, plans: Any, inputs: Inputs, optimiser: Any) -> Trained:
        """Passes over data change nothing."""
        return Trained(dict(inputs.params), dict(inputs.extras), None, None, {})


class UntrainedRun(Run):
    """A run of nothing but algebra."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.untrained = Untrained()
        self.fed.run_training, self.fed.trainer.run = self.untrained.train, self.untrained.run  # type: ignore[method-assign]

    def algebra(self) -> float:
        """Processor seconds of a round."""
        self.untrained.aside, begun = 0.0, process_time()
        self.step()
        return process_time() - begun - self.untrained.aside


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
def test_algebra_of_100_clients_takes_less_than_a_tenth_of_a_round(
    figure: Figure, method: str
) -> None:
    run = run_of(method, "cnn4", (SAMPLES,) * CLIENTS, kind=UntrainedRun, **SETTING)
    run.step()
    assert isinstance(run, UntrainedRun)

    def share() -> float:
        return median(run.algebra() for _ in range(2)) / training()

    assert figure.once(share, "of a round's training") < 0.1
