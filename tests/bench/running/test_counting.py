"""A counted round multiplies what its layers say, and computes what it would have computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.bench.records.store import Store
from repfl.bench.running import operations
from repfl.bench.running.counting import MANY, Counter, Tally, counted
from repfl.bench.running.task import Outcome
from repfl.bench.trust.toys import RAGGED, toy_data, toy_recipe
from tests.bench.conftest import task


def started(method: str, rounds: int = 1) -> Run:
    net = models.build("tiny-bn", channels=1, size=8, classes=4)
    run = Run(build(method), toy_recipe(rounds=rounds, epochs=2), toy_data(), net, seed=0)
    run.start()
    return run


def counted_round(run: Run) -> Counter:
    with counted(run) as counter:
        run.step()
    return counter


@pytest.mark.parametrize("method", sorted(methods()))
def test_a_counted_round_gives_the_same_bits(method: str) -> None:
    plain, watched = started(method), started(method)
    plain.step()
    assert counted_round(watched).products > 0
    assert plain.state.keys() == watched.state.keys()
    for name, value in plain.state.items():
        assert torch.equal(value, watched.state[name]), name


def test_clients_that_train_alone_multiply_what_their_layers_do() -> None:
    each = operations.counted("tiny-bn", 1, 8, 4).train_products
    assert counted_round(started("local")).products == 2 * sum(RAGGED) * each


@pytest.mark.parametrize("rounds", [MANY - 1, MANY])
def test_a_long_run_tells_what_all_its_rounds_multiply(
    rounds: int, store: Store, compute: Callable[..., Outcome]
) -> None:
    wanted = task("local", training={"rounds": rounds})
    compute(wanted)
    record = store.get(wanted.cell.id)
    assert record is not None
    each = operations.counted("tiny", 1, 8, 10).train_products
    told = {"clients": 2, "rounds": rounds, "multiply_adds": rounds * 40 * each}
    assert record.provenance.get("work") == (told if rounds == MANY else None)


@pytest.mark.parametrize("method", ["fedala", "fedap", "fedselect", "pfedsd"])
def test_rounds_of_another_kind_at_the_beginning_count_once(method: str) -> None:
    run, tally = started(method, MANY), Tally(MANY, {})
    found = [counted_round(run).products for _ in range(MANY)]
    assert len(set(found)) > 1
    run = started(method, MANY)
    while not run.done:
        tally.step(run)
    assert tally.told(4)["multiply_adds"] == sum(found)


@pytest.mark.parametrize("before", [1, 2, 15])
def test_a_run_that_is_interrupted_counts_the_same(before: int) -> None:
    halfway, tally = started("fedselect", MANY), Tally(MANY, {})
    for _ in range(before):
        tally.step(halfway)
    resumed, later = started("fedselect", MANY), Tally(MANY, tally.known)
    resumed.restore(halfway.snapshot())
    for each, its in ((halfway, tally), (resumed, later)):
        while not each.done:
            its.step(each)
    assert later.told(4) == tally.told(4) != {}


def test_a_run_of_which_a_part_was_not_counted_tells_nothing() -> None:
    tally = Tally(MANY, dict.fromkeys(range(2, MANY + 1), 7))
    assert tally.told(4) == {}
