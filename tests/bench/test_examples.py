"""The examples of methods that come with the harness do what they say."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import build
from repfl.bench.grid.grid import read
from repfl.bench.grid.plan import Selection, plan
from tests.algorithms import toys
from tests.bench.conftest import ROOT

EXAMPLES = sorted((ROOT / "bench/examples").glob("*.toml"))
LOGGED = {"mode": "flbench", "body_epochs": 1, "detach": True, "newcomer": "global"}


@pytest.fixture
def two_workers(plugged: Callable[[Path], None]) -> Any:
    """The module that the example makes."""
    plugged(ROOT / "bench/examples/two_workers.py")
    return sys.modules[type(build("flute-two-workers")).__module__]


@pytest.mark.parametrize(
    ("workers", "durations", "order"),
    [
        (2, [5, 1, 1, 9, 2, 2], [1, 2, 0, 4, 5, 3]),
        (2, [3], [0]),
        (2, [2, 2, 2], [0, 1, 2]),
        (1, [5, 1, 4], [0, 1, 2]),
    ],
)
def test_jobs_end_in_the_order_of_their_workers(
    two_workers: Any,
    monkeypatch: pytest.MonkeyPatch,
    workers: int,
    durations: list[int],
    order: list[int],
) -> None:
    monkeypatch.setattr(two_workers, "WORKERS", workers)
    assert two_workers.order_of_completion(durations) == order


def test_one_worker_returns_every_head_to_its_client_and_two_do_not(
    two_workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    flute, two = (toys.run(name, LOGGED).state["own"] for name in ("flute", "flute-two-workers"))
    assert not torch.equal(two, flute)
    monkeypatch.setattr(two_workers, "WORKERS", 1)
    assert torch.equal(toys.run("flute-two-workers", LOGGED).state["own"], flute)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_grids_are_valid_at_every_scale_that_they_have(file: Path) -> None:
    for scale in read(file).file.scales:
        assert plan(Selection(files=[file], scale=scale))
