"""What the harness costs around training, and what a second worker brings, as ratios taken in one run."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

import pytest

from bench.cells.cell import Cell, build_cell
from bench.records.store import Store
from bench.running.executors import EXECUTORS
from bench.running.task import Options, Outcome, Task
from datasets.core.recipe import Evaluation, Partition, Recipe, Training

pytestmark = pytest.mark.speed
CELLS = 8


def cifar_shaped(seed: int, rounds: int) -> Cell:
    """cnn4 at batch 32 on digits presented as 32x32 RGB: a desk-scale cell that needs no download."""
    recipe = Recipe(
        dataset="digits",
        model="cnn4",
        clients=10,
        partition=Partition(rule="client-dirichlet", options={"alpha": 0.5, "train": 96, "test": 30}),
        training=Training(rounds=rounds, epochs=5, batch=32, lr=0.01),
        evaluation=Evaluation(every=1),
        input=(3, 32, 32),
    )
    return build_cell("fedavg", {}, recipe, seed)


def seconds(cells: list[Cell], workers: int, results: Path) -> float:
    begun = perf_counter()
    outcomes = list(
        EXECUTORS["processes"]([Task(cell) for cell in cells], Options(results=str(results)), workers, lambda *_: None, lambda: False)
    )
    assert [outcome.status for outcome in outcomes] == ["done"] * len(cells)
    return perf_counter() - begun


def test_two_workers_run_a_grid_of_equal_cells_at_least_1_8_times_as_fast_as_one(tmp_path: Path, benchmark: Any) -> None:
    cells = [cifar_shaped(seed, rounds=3) for seed in range(CELLS)]
    one = seconds(cells, 1, tmp_path / "one")
    two = benchmark.pedantic(seconds, args=(cells, 2, tmp_path / "two"), rounds=1)
    benchmark.extra_info["one worker over two"] = one / two
    same = [[Store(str(tmp_path / where)).get(cell.id).provenance["digests"] for cell in cells] for where in ("one", "two")]
    assert same[0] == same[1]
    assert one / two >= 1.8


def test_harness_takes_less_than_3_percent_of_a_desk_scale_cell(tmp_path: Path, benchmark: Any) -> None:
    cell = cifar_shaped(0, rounds=8)

    def run() -> list[Outcome]:
        return list(EXECUTORS["inline"]([Task(cell)], Options(results=str(tmp_path)), 1, lambda *_: None, lambda: False))

    begun = perf_counter()
    benchmark.pedantic(run, rounds=1)
    wall = perf_counter() - begun
    spent = Store(str(tmp_path)).get(cell.id).provenance["seconds"]
    share = 1 - (spent["train"] + spent["evaluate"]) / wall
    benchmark.extra_info["share outside training and evaluation"] = share
    assert share < 0.03
