"""Estimates come from operations, from runs that say something about speed, from the kind of device
that is asked about; they have a range, and say what they rest on.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import Planned, Selection, unique
from repfl.bench.records.store import Record, Store
from repfl.bench.running import cost, operations, pace
from repfl.bench.running.clients import clients_of
from repfl.bench.running.task import Task
from tests.bench.conftest import task


@pytest.fixture(autouse=True)
def _uncalibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPFL_PACE", str(tmp_path / "pace.json"))


def lasting(method: str = "fedavg", rounds: int = 100, seed: int = 0, **changes: Any) -> Task:
    return task(method, seed, training={"rounds": rounds}, **changes)


def expected(done: Task) -> float:
    """Seconds on the reference machine."""
    return cost.Speeds().seconds(done.cell)


def keep(store: Store, done: Task, times: float, device: str = "cpu", **told: float) -> None:
    """A record of a cell that took so many times as long as on the reference machine."""
    spent = times * expected(done)
    seconds = {"train": 0.9 * spent, "evaluate": 0.1 * spent, "wall": 7 * spent}
    seconds |= {"processor": spent} if device == "cpu" else {}
    origin = {"device": device, "chunk": operations.TOGETHER, "seconds": seconds | told}
    store.put(Record(done.cell.id, done.cell.json, "done", "", {}, origin), {})


def planned(wanted: Task) -> Planned:
    return Planned(wanted.cell, "tests", "table1", "table", "row", "two", "two clients", "smoke")


def seconds(store: Store, wanted: Task, device: str = "cpu") -> float:
    return cost.measured(store)[device].seconds(wanted.cell)


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
def test_work_counts_the_samples_that_clients_really_have(partition: dict[str, Any]) -> None:
    wanted = lasting(partition=partition, clients=4)
    real = clients_of(wanted.cell)
    done = operations.work("fedavg", {}, wanted.cell.recipe)
    assert done.samples == pytest.approx(100 * real.samples, rel=0.1)  # shares are cut per class
    tested = sum(len(part) for part in real.data.test) / 4
    assert operations.scored_on(wanted.cell.recipe) == pytest.approx(tested, rel=0.1)


def test_counted_models_are_those_of_the_table() -> None:
    for shape in [("tiny", 1, 8, 10), ("tiny-bn", 1, 8, 10), ("cnn4", 3, 32, 10)]:
        assert operations.table()[shape] == operations.counted(*shape)
    wanted = {
        operations.shape_of(item.cell.recipe)
        for scale in ("smoke", "desk", "paper")
        for item in unique(plan(Selection(papers=["fedpurin"], scale=scale)))
    }
    assert wanted <= set(operations.table())


def test_products_are_those_of_the_layers() -> None:
    forward = 24 * 24 * 25 * 32 + 8 * 8 * 25 * 32 * 64 + 1024 * 512 + 512 * 10
    assert operations.network("cnn4", 1, 28, 10).score_products == forward


def test_grey_pictures_cost_less_than_coloured_ones() -> None:
    grey, coloured = (operations.network("cnn4", *shape) for shape in ((1, 28, 10), (3, 32, 10)))
    assert grey.train_products < 0.6 * coloured.train_products
    known = pace.reference()
    assert known._of(grey.step(32)) < 0.8 * known._of(coloured.step(32))


def test_epochs_of_the_head_alone_go_through_the_body_forward_only() -> None:
    recipe = lasting().cell.recipe
    whole, mixed, head = (
        operations.work(method, hp, recipe).steps
        for method, hp in (
            ("fedavg", {}),
            ("fedrep", {"body_epochs": 1, "head_epochs": 1}),
            ("flute", {"detach": True}),
        )
    )
    assert head.products < 0.5 * whole.products
    assert head.parameters == 0
    epochs = recipe["training"]["epochs"]
    assert mixed.products == pytest.approx((whole.products + head.products) / epochs)


def test_everybody_who_is_scored_and_tuned_is_counted() -> None:
    plain, often, tuned = (
        operations.work(method, hp, lasting(evaluation=evaluation).cell.recipe).scoring
        for method, hp, evaluation in (
            ("fedavg", {}, {"every": 0}),
            ("fedavg", {}, {"every": 10}),
            ("fedavg-ft", {"epochs": 5}, {"every": 0}),
        )
    )
    assert often.products == pytest.approx(10 * plain.products)
    assert tuned.products > 5 * plain.products


def test_an_estimate_is_what_such_cells_took(store: Store) -> None:
    for seed, times in enumerate((1.0, 2.0, 9.0)):
        keep(store, lasting(seed=seed), times)
    wanted = lasting(seed=9, rounds=50)
    assert seconds(store, wanted) == pytest.approx(2 * expected(wanted))


def test_cells_that_took_one_client_at_a_time_tell_the_same_of_a_machine(store: Store) -> None:
    one, wanted = lasting(clients=8), lasting(seed=9, clients=8).cell
    alone, together = (
        cost.Speeds().pace.seconds(operations.work("fedavg", {}, wanted.recipe, chunk), "fedavg")
        for chunk in (1, None)
    )
    spent = {"train": 0.0, "evaluate": 0.0, "wall": 0.0, "processor": 2 * (cost.START + alone)}
    origin = {"device": "cpu", "chunk": 1, "seconds": spent}
    store.put(Record(one.cell.id, one.cell.json, "done", "", {}, origin), {})
    assert together < 0.7 * alone
    found = cost.measured(store)["cpu"].seconds(wanted)
    assert found == pytest.approx(2 * (cost.START + together))


def test_the_clock_on_the_wall_tells_nothing(store: Store) -> None:
    before = seconds(store, lasting(seed=9))
    early = lasting(seed=1)
    took = {"train": 900.0, "evaluate": 90.0, "wall": 999.0}
    origin = {"device": "cpu", "chunk": 1, "seconds": took}
    store.put(Record(early.cell.id, early.cell.json, "done", "", {}, origin), {})
    assert seconds(store, lasting(seed=9)) == before
    keep(store, lasting(seed=2), 1.0, wall=1e6, train=1e6)
    assert seconds(store, lasting(seed=9)) == pytest.approx(before)


def test_cells_that_train_on_a_handful_do_not_spoil_an_estimate(store: Store) -> None:
    keep(store, lasting(), 1.0)
    for seed in range(1, 6):
        keep(store, lasting(seed=seed, rounds=2), 99.0)  # there for their bytes
    assert seconds(store, lasting(seed=9)) == pytest.approx(expected(lasting()))


def test_a_method_costs_what_it_was_measured_to_cost(store: Store) -> None:
    keep(store, lasting(), 1.0)
    for seed in range(4):
        keep(store, lasting("ditto", seed=seed), 5.0)
    dear, other = (seconds(store, lasting(m, seed=9)) for m in ("ditto", "fedper"))
    assert dear / expected(lasting("ditto")) == pytest.approx(5.0, rel=0.1)
    assert 1.0 < other / expected(lasting("fedper")) < 5.0


def test_a_method_that_nobody_measured_costs_what_its_registration_says() -> None:
    known = replace(pace.reference(), methods={})
    once, twice = (known.share(method).steps for method in ("fedper", "star-pfl"))
    assert (once, twice) == (1.0, 2.0)


def test_a_slow_machine_is_slow_with_models_it_has_not_seen(store: Store) -> None:
    before = seconds(store, lasting(model="tiny-bn"))
    keep(store, lasting(), 3.0)
    assert seconds(store, lasting(model="tiny-bn")) == pytest.approx(3 * before)


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
    store.put(
        Record(failed.cell.id, failed.cell.json, "failed", "no luck", {}, {"device": "cpu"}), {}
    )
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
    assert after.per(2).high == after.high / 2


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (cost.Cost(7200, 5760, 9000), "2.0 h, 1.6 to 2.5 h"),
        (cost.Cost(80, 60, 600), "80 s, 60 s to 10 min"),
    ],
)
def test_a_range_in_words(told: cost.Cost, words: str) -> None:
    assert cost.between(told) == words


def test_a_forecast_says_what_it_rests_on(store: Store) -> None:
    items = [planned(lasting(seed=9)), planned(lasting(seed=9, model="tiny-bn"))]

    def told() -> str:
        return cost.in_words(cost.forecast(items, cost.measured(store)))

    assert "2 cells to compute" in told()
    assert "by their operations, at a reference pace; `repfl doctor` measures" in told()
    assert "GPU hours cannot be told" in told()
    keep(store, lasting(), 1.0)
    assert "the models of 1 were measured here" in told()
    keep(store, lasting(seed=1), 500.0, "cuda:0")
    assert "of one GPU for the 1 whose models, as measured by cells of this store" in told()


def test_costs_of_shards_look_at_no_store(store: Store) -> None:
    before = cost.static(planned(lasting()))
    keep(store, lasting(), 9.0)
    assert cost.static(planned(lasting())) == before
