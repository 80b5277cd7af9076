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
    plugged(ROOT / "bench/studies/two_workers.py")
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


def test_the_selection_skew_is_noted_beside_the_same_run(plugged: Callable[[Path], None]) -> None:
    plugged(ROOT / "bench/studies/selection_skew.py")
    noted, plain = (toys.run(n, {"degree": 2}, rounds=3) for n in ("selection-skew", "pfeddst"))
    assert torch.equal(noted.state["w"], plain.state["w"])
    notes = {name: value for round_, name, value in noted.rows if round_ == 3}
    skews = {n: v for n, v in notes.items() if n.startswith("note/skew/zero/")}
    assert max(skews, key=skews.__getitem__) == "note/skew/zero/with the largest losses"
    assert len(set(skews.values())) > 1


def test_the_skew_is_the_mean_loss_on_chosen_peers_over_that_on_all(
    plugged: Callable[[Path], None],
) -> None:
    plugged(ROOT / "bench/studies/selection_skew.py")
    skew = sys.modules[type(build("selection-skew")).__module__].skew
    one = torch.tensor([[0.5, 2.0, 4.0], [3.0, 0.5, 3.0], [1.0, 2.0, 0.5]])
    assert skew(one, torch.zeros(3), ~torch.eye(3, dtype=torch.bool)) == pytest.approx(1.0)
    chosen = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]]).bool()
    # means of the chosen: 4, 3 and 2; of all others: 3, 3 and 1.5
    assert skew(one, torch.zeros(3), chosen) == pytest.approx(9 / 7.5)
    # one less on the data of client 1: 4, 3 and 1; 2.5, 3 and 1
    assert skew(one, torch.tensor([0.0, 1.0, 0.0]), chosen) == pytest.approx(8 / 6.5)


def test_without_the_check_frozen_entries_stay_frozen(plugged: Callable[[Path], None]) -> None:
    plugged(ROOT / "bench/studies/without_check.py")
    returned = {}
    for name in ("without-check", "star-pfl"):
        run = toys.run(name, rounds=1)
        returned[name] = 0
        for _ in range(4):
            before = run.state["client.active"].clone()
            run.step()
            returned[name] += int((run.state["client.active"] & ~before).sum())
    assert returned["without-check"] == 0
    assert returned["star-pfl"] > 0


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_example_grids_are_valid_at_every_scale_that_they_have(file: Path) -> None:
    for scale in read(file).file.scales:
        assert plan(Selection(files=[file], scale=scale))
