"""What the harness costs around training, and what a second worker brings, as ratios taken in one
run.
"""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest

from repfl.bench.grid.cell import Cell, build_cell
from repfl.bench.run.executors import EXECUTORS
from repfl.bench.run.task import Options, Task
from repfl.bench.store.contents import Provenance
from repfl.bench.store.store import Store
from repfl.datasets.core.recipe import Evaluation, Partition, Recipe, Training
from tests.speed.conftest import Figure

pytestmark = pytest.mark.speed
CELLS = 8


def cifar_shaped(seed: int, rounds: int) -> Cell:
    """cnn4 at batch 32 on digits presented as 32x32 RGB: a desk-scale cell that needs no
    download.
    """
    options = {"alpha": 0.5, "train": 96, "test": 30}
    recipe = Recipe(
        dataset="digits",
        model="cnn4",
        clients=10,
        partition=Partition(rule="client-dirichlet", options=options),
        training=Training(rounds=rounds, epochs=5, batch=32, lr=0.01),
        evaluation=Evaluation(every=1),
        input=(3, 32, 32),
    )
    return build_cell("fedavg", {}, recipe, seed)


def seconds(cells: list[Cell], workers: int, results: Path, executor: str = "processes") -> float:
    """How long an executor takes with some cells."""
    options = (Options(results=str(results)), workers, lambda *_: None, lambda: False)
    begun = perf_counter()
    outcomes = list(EXECUTORS[executor]([Task(cell) for cell in cells], *options))
    assert [outcome.status for outcome in outcomes] == ["done"] * len(cells)
    return perf_counter() - begun


def origin_of(results: Path, cell: Cell) -> Provenance:
    """Return how a finished cell was computed."""
    record = Store(str(results)).get(cell.id)
    assert record is not None
    return record.origin


def test_two_workers_run_a_grid_of_equal_cells_at_least_1_8_times_as_fast_as_one(
    tmp_path: Path, figure: Figure
) -> None:
    cells = [cifar_shaped(seed, rounds=3) for seed in range(CELLS)]
    one = seconds(cells, 1, tmp_path / "one")
    times = figure.once(lambda: one / seconds(cells, 2, tmp_path / "two"), "times as fast as one")
    assert times >= 1.8
    for cell in cells:
        once, twice = (origin_of(tmp_path / where, cell) for where in ("one", "two"))
        assert once.digests == twice.digests


def test_harness_takes_less_than_3_percent_of_a_desk_scale_cell(
    tmp_path: Path, figure: Figure
) -> None:
    cell = cifar_shaped(0, rounds=8)

    def share() -> float:
        wall = seconds([cell], 1, tmp_path, "inline")
        spent = origin_of(tmp_path, cell).seconds
        return 1 - (spent.train + spent.evaluate) / wall

    assert figure.once(share, "of a cell outside training and scoring") < 0.03
