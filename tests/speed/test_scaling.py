"""Cost against size is a straight line of slope one on log-log axes wherever theory says so;
processor time of one thread.

All sizes are beyond 32 MiB, from where on memory is fresh from the system at every allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pytest

from tests.speed.clients import federation, run_of
from tests.speed.conftest import Figure
from tests.speed.test_algebra import models, operations

pytestmark = pytest.mark.speed
LINEAR = (0.8, 1.2)


def slope(sizes: Sequence[int], jobs: Sequence[Callable[[], Any]], repeats: int = 3) -> float:
    """Exponent of cost in size; sizes take turns, and the median of each counts."""
    spent: list[list[float]] = [[] for _ in sizes]
    for repeat in range(repeats + 1):
        for own, job in zip(spent, jobs, strict=True):
            begun = process_time()
            job()
            if repeat:
                own.append(process_time() - begun)
    return float(np.polyfit(np.log(sizes), np.log([median(own) for own in spent]), 1)[0])


@pytest.mark.parametrize("operation", ["mean", "top share", "holders' mean", "quantile"])
def test_aggregation_is_linear_in_clients(figure: Figure, operation: str) -> None:
    sizes = (50, 100, 200, 400)
    jobs = [operations(models(clients, 250_000))[operation] for clients in sizes]
    assert LINEAR[0] < figure.once(lambda: slope(sizes, jobs), "exponent of N") < LINEAR[1]


@pytest.mark.parametrize("operation", ["mean", "top share", "holders' mean", "gossip", "quantile"])
def test_aggregation_is_linear_in_entries(figure: Figure, operation: str) -> None:
    sizes = (250_000, 500_000, 1_000_000, 2_000_000)
    jobs = [operations(models(50, size))[operation] for size in sizes]
    assert LINEAR[0] < figure.once(lambda: slope(sizes, jobs), "exponent of D") < LINEAR[1]


def test_training_is_linear_in_clients(figure: Figure) -> None:
    sizes = (2, 4, 8, 16)
    feds = [federation("cnn4", (64,) * clients, "cpu", batch=32) for clients in sizes]
    jobs = [lambda fed=fed: fed.train(fed.new_model().expand(fed.K, -1)) for fed in feds]
    assert LINEAR[0] < figure.once(lambda: slope(sizes, jobs), "exponent of K") < LINEAR[1]


def test_a_run_is_linear_in_rounds(figure: Figure) -> None:
    sizes = (2, 4, 8)

    def rounds(count: int) -> Callable[[], None]:
        def job() -> None:
            run = run_of("fedavg", "lenet5", (96,) * 4, batch=32)
            for _ in range(count):
                run.step()

        return job

    assert (
        LINEAR[0]
        < figure.once(
            lambda: slope(sizes, [rounds(count) for count in sizes]), "exponent of rounds"
        )
        < LINEAR[1]
    )
