"""Recorded steps compute what steps compute: for every method, in lanes of one client and in
stacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from repfl.algorithms.core.batches import Batch, Schedule, batch_at, plan_batches
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.feed import Feed
from repfl.algorithms.core.method import methods
from repfl.bench.trust.contract import Broken, Situation, recordable
from repfl.bench.trust.tape import TapeLane
from repfl.bench.trust.toys import EVEN, RAGGED
from repfl.datasets.core import augment
from tests.algorithms import toys

BARE = partial(TapeLane, records=False)


def run(
    name: str,
    sizes: tuple[int, ...] = RAGGED,
    rounds: int = 2,
    lr_decay: float = 1.0,
    **lowering: Any,
) -> Any:
    TapeLane.recorded = TapeLane.played = 0
    protocol: dict[str, Any] = {
        "rounds": rounds,
        "lr_decay": lr_decay,
        "batch": 4 if sizes is EVEN else 8,
    }
    return toys.run(
        name,
        methods()[name].quick,
        model="tiny-bn",
        sizes=sizes,
        dtype=torch.float64,
        lowering=lowering,
        **protocol,
    )


@pytest.mark.parametrize("name", ["apfl", "dis-pfl", "fedavg", "fedselect", "floco"])
@pytest.mark.parametrize("how", [{"lanes": 2}, {"lanes": 1, "chunk": 4}], ids=["lanes", "stack"])
def test_recorded_steps_give_the_bits_of_unrecorded_ones(name: str, how: dict[str, int]) -> None:
    recorded = run(name, EVEN, lane=TapeLane, **how)
    assert TapeLane.recorded > 0
    assert TapeLane.played > TapeLane.recorded
    bare = run(name, EVEN, lane=BARE, **how)
    for key, value in recorded.state.items():
        assert torch.equal(value, bare.state[key]), f"{name}: {key}"


def test_the_contract_notices_steps_that_python_remembers() -> None:
    case = Situation("fedavg", "tiny", 1.0)
    recordable(case)
    with remembered_steps(), pytest.raises(Broken, match="recorded steps give another theta"):
        recordable(case)


@contextmanager
def remembered_steps() -> Iterator[None]:
    """FedAvg whose clients count their steps in Python, as no record can."""
    entry, plain = methods()["fedavg"], methods()["fedavg"].cls.round
    seen: list[int] = []

    def round_(self: Any, state: Any, fed: Any) -> Any:
        def step(local: Chunk, batch: Batch) -> None:
            seen.append(1)
            local.sgd({name: g * (1 + len(seen) % 3) for name, g in local.grad(batch).items()})

        end = fed.loop(step, {"w": fed.down(state["theta"])}).theta
        return state | {"theta": fed.mean(fed.up(end))}

    entry.cls.round = round_  # type: ignore[method-assign]
    try:
        yield
    finally:
        entry.cls.round = plain  # type: ignore[method-assign]


@pytest.mark.parametrize("lr_decay", [1.0, 0.5])
def test_records_serve_later_rounds_whatever_the_learning_rate(lr_decay: float) -> None:
    recorded = {}
    for rounds in (3, 6):
        state = run("fedavg", rounds=rounds, lr_decay=lr_decay, lanes=2, lane=TapeLane).state
        recorded[rounds] = TapeLane.recorded
    assert recorded[3] == recorded[6]
    assert toys.gap(run("fedavg", rounds=6, lr_decay=lr_decay).state, state) < 1e-9


def test_a_run_of_equal_steps_is_played_at_once() -> None:
    sizes = (72, 72)
    state = run("fedavg", sizes, rounds=2, lanes=2, lane=TapeLane).state
    steps = 2 * len(sizes) * 2 * 9
    assert TapeLane.played == 2 * len(sizes) * (1 + 2)  # sixteen, one, one
    assert TapeLane.played < steps / 5
    assert toys.gap(run("fedavg", sizes, rounds=2).state, state) < 1e-9


def test_records_of_phases_that_train_different_parts_serve_later_rounds() -> None:
    recorded = {}
    for rounds in (2, 5):
        state = run("fedrep", EVEN, rounds=rounds, lanes=2, lane=TapeLane).state
        recorded[rounds] = TapeLane.recorded
    assert recorded[2] == recorded[5] > 0
    assert toys.gap(run("fedrep", EVEN, rounds=5).state, state) < 1e-9


def test_records_of_a_broken_lane_are_made_anew_and_none_is_played() -> None:
    lanes: list[TapeLane] = []

    def lane() -> TapeLane:
        lanes.append(TapeLane())
        return lanes[-1]

    done = run("dfedpgp", EVEN, rounds=2, lanes=2, lane=lane)
    before = TapeLane.recorded
    for made in lanes:
        made.broken = True
        for player in made.players:
            for kind, (_, kept) in player.records.items():
                player.records[kind] = (
                    lambda: pytest.fail("a record of a broken lane was played"),
                    kept,
                )
    done.step()
    assert TapeLane.recorded > before
    assert not any(made.broken for made in lanes)
    assert toys.gap(run("dfedpgp", EVEN, rounds=3).state, done.state) < 1e-9


def test_a_training_leaves_the_masks_it_was_given_alone() -> None:
    fed = run("fedavg", rounds=1, lanes=1, lane=TapeLane).fed
    one = torch.arange(fed.D) % 2 == 0
    before, start = one.clone(), fed.new_model().expand(fed.K, -1)
    for mask in (one, ~one):
        fed.train(start, trainable=mask)
    assert torch.equal(one, before)


def test_lanes_are_joined_when_a_step_fails() -> None:
    joined: list[int] = []

    class Watched(TapeLane):
        def join(self) -> None:
            joined.append(1)

    def step(local: Chunk, batch: Batch) -> None:
        raise ArithmeticError("no step today")

    fed = run("fedavg", rounds=1, lanes=2, lane=Watched).fed
    joined.clear()
    with pytest.raises(ArithmeticError, match="no step today"):
        fed.loop(step, {"w": fed.new_model().expand(fed.K, -1)})
    assert len(joined) == 2


def test_a_step_that_asks_the_host_runs_unrecorded_and_says_so() -> None:
    asked: list[float] = []

    def step(local: Chunk, batch: Batch) -> None:
        grads = local.grad(batch)
        asked.append(float(next(iter(grads.values())).sum()))
        local.sgd(grads)

    states = []
    for lowering in ({}, {"lanes": 1, "lane": TapeLane}):
        fed = run("fedavg", rounds=1, **lowering).fed
        states.append(fed.loop(step, {"w": fed.new_model().expand(fed.K, -1)}).theta)
        if lowering:
            assert any(
                "_local_scalar_dense is not permitted" in reason for reason in fed.lanes.refusals
            )
    assert toys.gap({"w": states[0]}, {"w": states[1]}) < 1e-9


def test_a_step_that_changes_places_of_its_tensors_is_recorded_rightly() -> None:
    def step(local: Chunk, batch: Batch) -> None:
        local.extras |= {"one": local.extras["two"], "two": local.extras["one"] + 1}

    found = []
    for lane in (TapeLane, BARE):
        fed = run("fedavg", rounds=1, lanes=1, lane=lane).fed
        extras = {
            name: torch.arange(fed.K, dtype=torch.float64) + place
            for place, name in enumerate(("one", "two"))
        }
        found.append(
            fed.loop(step, {"w": fed.new_model().expand(fed.K, -1)}, extras=extras, epochs=9).extras
        )
    assert TapeLane.recorded == 0  # of the second run
    assert all(torch.equal(found[0][name], found[1][name]) for name in ("one", "two"))


@pytest.mark.parametrize("augmentation", ["none", "crop-flip"])
def test_a_feed_gives_the_batches_of_the_plans(augmentation: str) -> None:
    fed = run("fedavg", rounds=1).fed
    data = replace(fed.data, augment=augment.get(augmentation))
    schedule = Schedule("batches", 1, 3, 0, 8, False)
    plans = sorted(
        (plan_batches(data, fed.streams, client, schedule) for client in (0, 3, 5)),
        key=lambda plan: -len(plan.index),
    )
    feed = Feed(data, plans[::-1], 8, fed.device)
    for fresh in (False, True):
        if fresh:  # the same memory, other clients
            assert feed.reload(plans)
        else:
            feed = Feed(data, plans, 8, fed.device)
        for step in range(len(plans[0].index)):
            active = sum(len(plan.index) > step for plan in plans)
            wanted = batch_at(data, plans[:active], step)
            (found,) = feed.next(feed.ragged(step))
            valid = None if found.valid is None else found.valid[:active]
            got = Batch(found.x[:active], found.y[:active], valid)
            width = wanted.y.shape[1]
            assert torch.equal(got.x[:, :width], wanted.x)
            assert torch.equal(got.y[:, :width], wanted.y)
            real = (
                torch.ones_like(wanted.y, dtype=torch.bool)
                if wanted.valid is None
                else wanted.valid
            )
            assert got.valid is None or (
                torch.equal(got.valid[:, :width], real) and not got.valid[:, width:].any()
            )
            assert got.valid is not None or bool(real.all())


def test_a_feed_refuses_plans_that_do_not_fit() -> None:
    fed = run("fedavg", rounds=1).fed
    plans = [
        plan_batches(fed.data, fed.streams, client, Schedule("batches", 1, 2, 0, 8, False))
        for client in (3, 1)
    ]
    assert not Feed(fed.data, plans[1:], 8, fed.device).reload(plans[:1])
    assert not Feed(fed.data, plans[:1], 8, fed.device).reload(plans)
