"""Estimates come from runs that say something about speed, from the kind of device that is asked
about, and say what they rest on.
"""

from __future__ import annotations

from typing import Any

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.cells.plan import Planned
from repfl.bench.records.store import Record, Store
from repfl.bench.running import cost
from repfl.bench.running.clients import clients_of
from repfl.bench.running.task import Task
from tests.bench.conftest import task

TRAINED = 2 * 20 * 1.15
"""Samples of one round and epoch of the small recipe, scoring included."""


def lasting(method: str = "fedavg", rounds: int = 100, seed: int = 0, **changes: Any) -> Task:
    return task(method, seed, training={"rounds": rounds}, **changes)


def keep(store: Store, done: Task, per_sample: float, device: str = "cpu") -> None:
    """A record of a cell that took so many seconds per sample."""
    spent = per_sample * cost.work_of(done.cell.method, done.cell.recipe)
    origin = {
        "device": device,
        "seconds": {"train": 0.9 * spent, "evaluate": 0.1 * spent, "wall": spent + 1},
    }
    store.put(Record(done.cell.id, done.cell.json, "done", "", {}, origin), {})


def planned(wanted: Task) -> Planned:
    return Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two clients", "smoke")


def seconds(store: Store, wanted: Task, device: str = "cpu") -> float:
    return cost.estimates([planned(wanted)], store, device)[wanted.cell.id]


@pytest.mark.parametrize(
    "partition",
    [
        {
            "rule": "pairwise-dirichlet",
            "options": {"alpha": 0.5, "train_share": 0.1, "test_share": 0.2},
        },
        {"rule": "class-dirichlet", "options": {"alpha": 1.0, "test_share": 0.3}},
        {"rule": "client-dirichlet", "options": {"alpha": 0.5, "train": 30, "test": 10}},
    ],
)
def test_work_counts_the_samples_that_clients_really_train_on(partition: dict[str, Any]) -> None:
    wanted = lasting(partition=partition, clients=4)
    real = clients_of(wanted.cell).samples
    assert cost.work_of("fedavg", wanted.cell.recipe) == pytest.approx(
        100 * 1.15 * real, rel=0.1
    )  # shares are cut per class


def test_an_estimate_is_what_such_cells_took(store: Store) -> None:
    for seed, rate in enumerate((1e-3, 2e-3, 9e-3)):
        keep(store, lasting(seed=seed), rate)
    assert seconds(store, lasting(seed=9, rounds=50)) == pytest.approx(
        cost.START + 50 * TRAINED * 2e-3
    )


def test_cells_that_train_on_a_handful_do_not_spoil_an_estimate(store: Store) -> None:
    keep(store, lasting(), 1e-3)
    for seed in range(1, 6):
        keep(store, lasting(seed=seed, rounds=2), 1.0)  # there for their bytes
    assert seconds(store, lasting(seed=9)) == pytest.approx(cost.START + 100 * TRAINED * 1e-3)


def test_a_method_costs_what_it_was_measured_to_cost(store: Store) -> None:
    keep(store, lasting(), 1e-3)
    keep(store, lasting("ditto"), 5e-3)
    assert seconds(store, lasting("ditto", seed=1)) == pytest.approx(
        cost.START + 100 * TRAINED * 5e-3
    )
    assert seconds(store, lasting("fedper", seed=1)) == pytest.approx(
        cost.START + 100 * TRAINED * 2e-3, rel=0.6
    )


def test_a_method_that_nobody_measured_costs_its_passes(store: Store) -> None:
    keep(store, lasting(), 1e-3)
    once, twice = seconds(store, lasting("fedper")), seconds(store, lasting("ditto"))
    passes = methods()["ditto"].cost
    assert passes > 1.5
    assert twice - cost.START == pytest.approx(passes * (once - cost.START))


def test_a_slow_machine_is_slow_with_models_it_has_not_seen(store: Store) -> None:
    before = seconds(store, lasting(model="tiny-bn"))
    keep(store, lasting(), 3 * cost.REFERENCE["tiny"])
    assert seconds(store, lasting(model="tiny-bn")) - cost.START == pytest.approx(
        3 * (before - cost.START)
    )


def test_gpu_cells_tell_of_gpus_alone(store: Store) -> None:
    keep(store, lasting(), 1e-3)
    keep(store, lasting(seed=1), 1e-5, "cuda:1")
    assert seconds(store, lasting(seed=2)) == pytest.approx(cost.START + 100 * TRAINED * 1e-3)
    assert seconds(store, lasting(seed=2), "cuda") == pytest.approx(
        cost.START + 100 * TRAINED * 1e-5
    )


def test_failed_and_damaged_records_are_passed_over(store: Store) -> None:
    keep(store, lasting(), 1e-3)
    keep(store, lasting(seed=1), 1.0)
    (store.folder(lasting(seed=1).cell.id) / "record.json").write_bytes(b"{")
    failed = lasting(seed=2)
    store.put(
        Record(failed.cell.id, failed.cell.json, "failed", "no luck", {}, {"device": "cpu"}), {}
    )
    assert seconds(store, lasting(seed=9)) == pytest.approx(cost.START + 100 * TRAINED * 1e-3)


def test_a_forecast_says_what_it_rests_on(store: Store) -> None:
    items = [planned(lasting(seed=9)), planned(lasting(seed=9, model="tiny-bn"))]

    def told() -> str:
        return cost.in_words(cost.forecast(items, cost.measured(store)))

    assert "2 cells to compute" in told()
    assert "none of their models was measured here" in told()
    assert "GPU hours cannot be told" in told()
    keep(store, lasting(), 1e-3)
    assert "the models of 1 were measured here" in told()
    keep(store, lasting(seed=1), 0.5, "cuda:0")
    assert (
        "about 38 min of one GPU for the 1 whose models, as measured by cells of this store"
        in told()
    )


def test_costs_of_shards_look_at_no_store(store: Store) -> None:
    before = cost.static(planned(lasting()))
    keep(store, lasting(), 1.0)
    assert cost.static(planned(lasting())) == before
