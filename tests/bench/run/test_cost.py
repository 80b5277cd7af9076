"""Estimates come from operations, from runs that say something about speed, from the kind of device
that is asked about; they have a range, and say what they rest on.
"""

from __future__ import annotations

from typing import Any

import pytest

from repfl.bench.evidence.plan_status import overview
from repfl.bench.grid.planned import Planned
from repfl.bench.run import cost
from repfl.bench.run.clients import clients_of
from repfl.bench.run.task import Task
from repfl.bench.store.store import Record, Store
from tests.bench.conftest import task


def lasting(method: str = "fedavg", rounds: int = 100, seed: int = 0, **changes: Any) -> Task:
    return task(method, seed, training={"rounds": rounds}, **changes)


def expected(done: Task) -> float:
    """Seconds on the reference machine."""
    return cost.Speeds().seconds(done.cell)


def keep(store: Store, done: Task, times: float, device: str = "cpu") -> None:
    """A record of a cell that took so many times as long as on the reference machine."""
    spent = times * expected(done)
    seconds = {"train": 0.9 * spent, "evaluate": 0.1 * spent, "wall": 7 * spent}
    seconds |= {"processor": spent} if device == "cpu" else {}
    origin = {"device": device, "chunk": cost.STACK, "seconds": seconds}
    store.put(Record(done.cell.id, done.cell.json, "done", "", {}, origin), {})


def planned(wanted: Task) -> Planned:
    return Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two clients", "smoke")


def seconds(store: Store, wanted: Task, device: str = "cpu") -> float:
    return cost.measured(store)[device].seconds(wanted.cell)


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        ("pairwise-dirichlet", {"alpha": 0.5, "train_share": 0.1, "test_share": 0.2}),
        ("class-dirichlet", {"alpha": 1.0, "test_share": 0.3}),
        ("client-dirichlet", {"alpha": 0.5, "train": 30, "test": 10}),
    ],
)
def test_work_counts_the_samples_that_clients_really_have(
    rule: str, options: dict[str, Any]
) -> None:
    wanted = lasting(partition={"rule": rule, "options": options}, clients=4)
    real = clients_of(wanted.cell)
    done = cost.work("fedavg", {}, wanted.cell.recipe)
    assert done.samples == pytest.approx(100 * real.samples, rel=0.1)  # shares are cut per class
    tested = sum(len(part) for part in real.data.test) / 4
    assert cost.samples_of(wanted.cell.recipe)[1] == pytest.approx(tested, rel=0.1)


def test_multiply_adds_are_those_of_the_layers() -> None:
    forward = 24 * 24 * 25 * 32 + 8 * 8 * 25 * 32 * 64 + 1024 * 512 + 512 * 10
    assert cost.multiply_adds("cnn4", 1, 28, 10)[0] == forward


def test_all_who_are_scored_and_tuned_are_counted() -> None:
    plain, often, tuned = (
        cost.work(method, hp, lasting(evaluation=evaluation).cell.recipe)
        for method, hp, evaluation in (
            ("fedavg", {}, {"every": 0}),
            ("fedavg", {}, {"every": 10}),
            ("fedavg-ft", {"epochs": 5}, {"every": 0}),
        )
    )
    assert often.scored == pytest.approx(10 * plain.scored)
    assert tuned.trained > plain.trained


def test_scorings_are_counted_once_and_without_listing_the_rounds() -> None:
    def scored(last: int, **evaluation: Any) -> float:
        changes = {"training": {"rounds": last}, "evaluation": evaluation}
        return cost.work("fedavg", {}, task(**changes).cell.recipe).scored

    once = scored(25, every=0)
    assert scored(25, every=10) == pytest.approx(3 * once)  # after 10, 20 and 25
    assert scored(25, every=10, rounds=[10, 13, 25, 99]) == pytest.approx(4 * once)
    assert scored(25, every=0, rounds=[10, 13]) == pytest.approx(3 * once)
    assert scored(10**26, every=10) == pytest.approx(1e25 * once)


def test_an_estimate_is_what_such_cells_took(store: Store) -> None:
    for seed, times in enumerate((1.0, 2.0, 9.0)):
        keep(store, lasting(seed=seed), times)
    wanted = lasting(seed=9, rounds=50)
    assert seconds(store, wanted) == pytest.approx(2 * expected(wanted))


def test_cells_that_train_on_a_handful_do_not_spoil_an_estimate(store: Store) -> None:
    keep(store, lasting(), 1.0)
    for seed in range(1, 6):
        keep(store, lasting(seed=seed, rounds=2), 99.0)  # there for their bytes
    assert seconds(store, lasting(seed=9)) == pytest.approx(expected(lasting()))


def test_a_method_costs_what_its_registration_says_until_such_cells_ran(store: Store) -> None:
    plain, dear = (expected(lasting(name)) for name in ("fedper", "ditto"))
    assert dear > plain
    for seed in range(4):
        keep(store, lasting("ditto", seed=seed), 5.0)
    assert seconds(store, lasting("ditto", seed=9)) == pytest.approx(5 * dear)


def test_models_that_have_not_run_are_estimated_at_the_reference(store: Store) -> None:
    before = seconds(store, lasting(model="tiny-bn"))
    keep(store, lasting(), 3.0)
    assert seconds(store, lasting(model="tiny-bn")) == before


def test_gpu_cells_tell_of_gpus_alone(store: Store) -> None:
    keep(store, lasting(), 1.0)
    keep(store, lasting(seed=1), 0.01, "cuda:1")
    wanted = lasting(seed=2)
    assert seconds(store, wanted) == pytest.approx(expected(wanted))
    assert seconds(store, wanted, "cuda") == pytest.approx(0.01 * expected(wanted))


def test_failed_damaged_and_strange_records_are_passed_over(store: Store) -> None:
    keep(store, lasting(), 1.0)
    keep(store, lasting(seed=1), 99.0)
    (store.folder(lasting(seed=1).cell.id) / "record.json").write_bytes(b"{")
    failed = lasting(seed=2)
    fell = Record(failed.cell.id, failed.cell.json, "failed", "no luck", {}, {"device": "cpu"})
    store.put(fell, {})
    strange = lasting(seed=3).cell.json
    strange["recipe"]["model"] = "somebody's own"
    told = {"device": "cpu", "seconds": {"wall": 1.0, "processor": 1.0}}
    store.put(Record("f" * 64, strange, "done", "", {}, told), {})
    assert seconds(store, lasting(seed=9)) == pytest.approx(expected(lasting()))


def test_a_range_is_wide_where_nothing_is_known_and_narrow_where_such_cells_ran(
    store: Store,
) -> None:
    cells = [lasting(seed=seed).cell for seed in range(20, 23)]
    before = cost.measured(store)["cpu"].cost(cells)
    for seed in range(4):
        keep(store, lasting(seed=seed), 1.0)
    after = cost.measured(store)["cpu"].cost(cells)
    assert before.low < before.seconds < before.high
    assert after.high / after.low < 0.8 * before.high / before.low
    assert after.seconds == pytest.approx(sum(map(cost.Speeds().seconds, cells)))


def test_a_forecast_of_a_gpu_needs_a_run_on_one(store: Store) -> None:
    items = [planned(lasting(seed=9)), planned(lasting(seed=9, model="tiny-bn"))]
    keep(store, lasting(), 1.0)
    assert overview(items, store)["forecast"]["cuda"]["measured"] == 0
    keep(store, lasting(seed=1), 500.0, "cuda:0")
    forecast = overview(items, store)["forecast"]
    assert forecast["cuda"]["measured"] == 1
    assert 0 < forecast["cuda"]["seconds"] != forecast["cpu"]["seconds"]
