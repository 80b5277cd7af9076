"""Estimates of time and memory: from operations, and from runs of such cells on such a device."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.bench.check.toy_clients import RAGGED, toy_data, toy_recipe
from repfl.bench.evidence.plan_status import overview
from repfl.bench.grid.cell import canonical
from repfl.bench.grid.planned import Planned
from repfl.bench.run import cost, machine, memory, round_counter
from repfl.bench.run.clients import clients_of
from repfl.bench.run.round_counter import MIN_ROUNDS, RoundCounter
from repfl.bench.run.task import Task
from repfl.bench.store.contents import Work
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store
from tests.bench import invented
from tests.bench.conftest import Compute, Here, stored, task


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
    origin = invented.origin(device=device, chunk=cost.STACK, seconds=seconds)
    store.put(Record(done.cell.id, done.cell.json, "done", "", invented.VALUE, origin), {})


def seconds(store: Store, wanted: Task, device: str = "cpu") -> float:
    return cost.measured(store)[device].seconds(wanted.cell)


# -- operations ------------------------------------------------------------------------------------


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


def test_multiply_adds_are_those_of_the_layers_and_tuning_and_scoring_count() -> None:
    forward = 24 * 24 * 25 * 32 + 8 * 8 * 25 * 32 * 64 + 1024 * 512 + 512 * 10
    assert cost.multiply_adds("cnn4", 1, 28, 10)[0] == forward

    def work(last: int, method: str = "fedavg", epochs: int = 0, **evaluation: Any) -> Any:
        changes = {"training": {"rounds": last}, "evaluation": evaluation}
        return cost.work(method, {"epochs": epochs} if epochs else {}, task(**changes).cell.recipe)

    once = work(25, every=0)
    assert work(25, "fedavg-ft", 5, every=0).trained > once.trained
    scored = work(25, every=10, rounds=[10, 13, 25, 99]).scored  # after 10, 13, 20 and 25
    assert scored == pytest.approx(4 * once.scored)
    # without listing the rounds
    assert work(10**26, every=10).scored == pytest.approx(1e25 * once.scored)


# -- from records ----------------------------------------------------------------------------------


def test_an_estimate_is_what_such_cells_took_on_such_a_device(store: Store) -> None:
    wanted, other = lasting(seed=9, rounds=50), lasting(model="tiny-bn")
    before = seconds(store, other)
    for seed, times in enumerate((1.0, 2.0, 9.0)):
        keep(store, lasting(seed=seed), times)
    for seed in range(3, 9):
        keep(store, lasting(seed=seed, rounds=2), 99.0)  # there for their bytes, and says nothing
    keep(store, lasting(seed=10), 0.01, "cuda:1")
    assert seconds(store, wanted) == pytest.approx(2 * expected(wanted))
    assert seconds(store, wanted, "cuda") == pytest.approx(0.01 * expected(wanted))
    assert seconds(store, other) == before  # models that have not run are as on the reference


def test_a_method_costs_what_its_registration_says_until_such_cells_ran(store: Store) -> None:
    plain, dear = (expected(lasting(name)) for name in ("fedper", "ditto"))
    assert dear > plain
    for seed in range(4):
        keep(store, lasting("ditto", seed=seed), 5.0)
    assert seconds(store, lasting("ditto", seed=9)) == pytest.approx(5 * dear)


def test_failed_damaged_and_strange_records_are_passed_over(store: Store) -> None:
    keep(store, lasting(), 1.0)
    keep(store, lasting(seed=1), 99.0)
    (store.folder(lasting(seed=1).cell.id) / "record.json").write_bytes(b"{")
    failed, strange = lasting(seed=2), lasting(seed=3).cell.json
    store.put(Record(failed.cell.id, failed.cell.json, "failed", "", None, invented.origin()), {})
    strange["recipe"]["model"] = "somebody's own"
    times = dict.fromkeys(("wall", "train", "evaluate", "processor"), 1.0)
    told = invented.origin(seconds=times)
    store.put(Record("f" * 64, strange, "done", "", invented.VALUE, told), {})
    assert seconds(store, lasting(seed=9)) == pytest.approx(expected(lasting()))


def test_a_range_narrows_where_such_cells_ran_and_a_gpu_needs_a_run_on_one(store: Store) -> None:
    cells = [lasting(seed=seed).cell for seed in range(20, 23)]
    items = [
        Planned(cell, "tests", "table1", "table", "row", "two", "2", "smoke") for cell in cells
    ]
    before = cost.measured(store)["cpu"].cost(cells)
    for seed in range(4):
        keep(store, lasting(seed=seed), 1.0)
    after = cost.measured(store)["cpu"].cost(cells)
    assert before.low < before.seconds < before.high
    assert after.high / after.low < 0.8 * before.high / before.low
    assert after.seconds == pytest.approx(sum(map(cost.Speeds().seconds, cells)))
    assert overview(items, store)["forecast"]["cuda"]["measured"] == 0
    keep(store, lasting(seed=5), 500.0, "cuda:0")
    assert overview(items, store)["forecast"]["cuda"]["measured"] == 3


# -- counted rounds --------------------------------------------------------------------------------


def started(method: str, rounds: int = MIN_ROUNDS) -> Run:
    net = models.build("tiny-bn", channels=1, size=8, classes=4)
    run = Run(build(method), toy_recipe(rounds=rounds, epochs=2), toy_data(), net, seed=0)
    run.start()
    return run


def test_a_counted_round_gives_the_same_bits_and_multiplies_what_layers_do() -> None:
    for method in ("fedpac", "local"):
        plain, watched, counter = started(method), started(method), RoundCounter(MIN_ROUNDS, {})
        plain.step()
        counter.step(watched)
        for name, value in plain.state.items():
            assert torch.equal(value, watched.state[name]), (method, name)
    each = cost.multiply_adds("tiny-bn", 1, 8, 4).trained
    assert counter.counted[1] == 2 * sum(RAGGED) * each


def test_a_long_run_tells_what_all_its_rounds_multiply(store: Store, compute: Compute) -> None:
    for rounds in (MIN_ROUNDS - 1, MIN_ROUNDS):
        wanted = task("local", training={"rounds": rounds})
        compute(wanted)
        each = cost.multiply_adds("tiny", 1, 8, 10).trained
        told = {"clients": 2, "rounds": rounds, "multiply_adds": round(rounds * 40 * each)}
        work = stored(store, wanted.cell.id).origin.work
        assert work == (Work(**told) if rounds == MIN_ROUNDS else None)


def test_a_run_that_is_interrupted_counts_the_same_or_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(round_counter, "MIN_ROUNDS", rounds := 6)
    halfway, counter = started("fedavg", rounds), RoundCounter(rounds, {})
    for _ in range(3):
        counter.step(halfway)
    resumed, later = started("fedavg", rounds), RoundCounter(rounds, counter.counted)
    resumed.restore(halfway.snapshot())
    for each, its in ((halfway, counter), (resumed, later)):
        while not each.done:
            its.step(each)
    assert later.total(4) == counter.total(4) != {}
    del later.counted[1]
    assert later.total(4) == {}


# -- memory ----------------------------------------------------------------------------------------

MODEL = 878538 * 4
"""Bytes of cnn4 for 32 x 32 x 3 and 10 classes."""


@pytest.mark.parametrize(
    ("method", "copies"), [("fedavg", 0), ("fedper", 5130 * 4 / MODEL), ("ditto", 1), ("local", 1)]
)
def test_a_methods_state_is_what_its_clients_own(method: str, copies: float) -> None:
    cell = task(method, model="cnn4", dataset="cifar10", clients=10_000, participation=0.01).cell
    state = memory.state_bytes(method, canonical(cell.options), canonical(cell.json["recipe"]))
    assert state == pytest.approx((10_000 * copies + 1) * MODEL, rel=0.02)


def test_what_cells_like_it_have_held_is_believed() -> None:
    cell = task(seed=1).cell
    made = [invented.origin(peak_memory=peak << 30) for peak in (3, 9)]
    peaks = memory.peaks_of([Record(cell.id, cell.json, "done", "", None, each) for each in made])
    assert memory.needed(task(seed=2).cell, "cpu", {}) < 1 << 30
    assert 8 << 30 < memory.needed(task(seed=2).cell, "cpu", peaks) < 9 << 30
    assert memory.needed(task(clients=4).cell, "cpu", peaks) < 1 << 30


def test_a_cell_that_no_memory_can_hold_is_refused_and_the_others_run(
    here: Here, store: Store, monkeypatch: pytest.MonkeyPatch, grid: Any
) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda device: (2 << 30, 4 << 30))
    needed = {2: 1 << 30, 3: 9 << 30}
    monkeypatch.setattr(memory, "needed", lambda cell, *_: needed[cell.recipe.clients])
    where = ("--grid", grid, "--results", store.root)
    said = here("run", *where, "--executor", "inline")
    assert said.code == 2
    assert "needs about 9.0 GiB of memory, and there are 4.0 GiB" in said.err
    assert len(store.ids()) == 4
    assert "up to 9.0 GiB of memory for one of them" in here("plan", *where).out
