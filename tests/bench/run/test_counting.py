"""A counted round multiplies what its layers say, and computes what it would have computed."""

from __future__ import annotations

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.bench.check.toy_clients import RAGGED, toy_data, toy_recipe
from repfl.bench.run import cost, counting
from repfl.bench.run.counting import MIN_ROUNDS, RoundCounter
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, stored, task


def started(method: str, rounds: int = MIN_ROUNDS) -> Run:
    net = models.build("tiny-bn", channels=1, size=8, classes=4)
    run = Run(build(method), toy_recipe(rounds=rounds, epochs=2), toy_data(), net, seed=0)
    run.start()
    return run


@pytest.mark.parametrize("method", ["fedpurin", "fedpac"])
def test_a_counted_round_gives_the_same_bits(method: str) -> None:
    plain, watched, counter = started(method), started(method), RoundCounter(MIN_ROUNDS, {})
    plain.step()
    counter.step(watched)
    assert counter.counted[1] > 0
    for name, value in plain.state.items():
        assert torch.equal(value, watched.state[name]), name


def test_clients_that_train_alone_multiply_what_their_layers_do() -> None:
    each = cost.multiply_adds("tiny-bn", 1, 8, 4).trained
    counter = RoundCounter(MIN_ROUNDS, {})
    counter.step(started("local"))
    assert counter.counted[1] == 2 * sum(RAGGED) * each


@pytest.mark.parametrize("rounds", [MIN_ROUNDS - 1, MIN_ROUNDS])
def test_a_long_run_tells_what_all_its_rounds_multiply(
    rounds: int, store: Store, compute: Compute
) -> None:
    wanted = task("local", training={"rounds": rounds})
    compute(wanted)
    record = stored(store, wanted.cell.id)
    each = cost.multiply_adds("tiny", 1, 8, 10).trained
    told = {"clients": 2, "rounds": rounds, "multiply_adds": rounds * 40 * each}
    assert record.provenance.get("work") == (told if rounds == MIN_ROUNDS else None)


def test_a_run_that_is_interrupted_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counting, "MIN_ROUNDS", rounds := 6)
    halfway, counter = started("fedselect", rounds), RoundCounter(rounds, {})
    for _ in range(3):
        counter.step(halfway)
    resumed, later = started("fedselect", rounds), RoundCounter(rounds, counter.counted)
    resumed.restore(halfway.snapshot())
    for each, its in ((halfway, counter), (resumed, later)):
        while not each.done:
            its.step(each)
    assert later.total(4) == counter.total(4) != {}


def test_a_run_of_which_a_part_was_not_counted_tells_nothing() -> None:
    counter = RoundCounter(MIN_ROUNDS, dict.fromkeys(range(2, MIN_ROUNDS + 1), 7))
    assert counter.total(4) == {}
