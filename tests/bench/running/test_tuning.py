"""What is left open is measured once, remembered, and recorded; memory that runs out halves it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from repfl.bench.cells.plan import plan
from repfl.bench.cells.planned import Planned, Selection, unique
from repfl.bench.running import operations, products, tuning
from repfl.bench.running.task import Options, Task
from tests.bench.conftest import task

OPEN = Options(device="cuda:0", chunk=0)


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Measurements are counted instead of made, and there is a GPU by name."""
    asked: list[Any] = []
    choice = {"chunk": 1, "lanes": 8, "conv": "auto"}
    monkeypatch.setenv("REPFL_TUNED", str(tmp_path / "kept" / "tuned.json"))
    monkeypatch.setattr(
        tuning.provenance,
        "platform_of",
        lambda device, precision: {"fingerprint": f"one gpu {precision}"},
    )
    monkeypatch.setattr(
        tuning,
        "_measured",
        lambda job: asked.append(job) or {"what": "", "choice": choice, "trials": []},
    )
    return asked


def test_a_choice_is_measured_once_per_device_model_batch_and_cohort(counted: list[Any]) -> None:
    cell = task("fedavg", participation=0.5).cell
    for _ in range(2):
        done = tuning.settled(OPEN, cell)
        assert (done.chunk, done.lanes, done.conv) == (1, 8, "auto")
    assert len(counted) == 1
    tuning.settled(OPEN, task("fedper", participation=0.5).cell)
    assert len(counted) == 1
    tuning.settled(Options(device="cuda:0", chunk=0, precision="bf16"), cell)
    assert len(counted) == 2
    tuning.settled(OPEN, task("dfedavgm", participation=0.5).cell)  # everybody trains there
    assert len(counted) == 3


def test_processes_that_begin_together_measure_once(
    counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = tuning._measured
    monkeypatch.setattr(tuning, "_measured", lambda job: time.sleep(0.3) or quick(job))
    with ThreadPoolExecutor(4) as pool:
        found = set(
            pool.map(lambda seed: tuning.settled(OPEN, task("fedavg", seed).cell), range(4))
        )
    assert len(found) == 1
    assert len(counted) == 1


def test_what_the_user_has_chosen_is_not_measured(counted: list[Any]) -> None:
    options = Options(device="cuda:0", chunk=4, lanes=2)
    assert tuning.settled(options, task("fedavg").cell) is options
    assert counted == []


@pytest.mark.parametrize(("batch", "chunk"), [(32, 32), (64, 1)])
def test_a_cpu_takes_one_client_at_a_time_unless_a_step_is_tiny(
    counted: list[Any], batch: int, chunk: int
) -> None:
    cell = task("fedavg", model="tiny-bn", training={"batch": batch}).cell
    assert tuning.settled(Options(chunk=0), cell).chunk == chunk
    assert counted == []


def test_a_model_without_a_client_axis_goes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = SimpleNamespace(model=SimpleNamespace(stacked=False))
    monkeypatch.setattr(tuning, "clients_of", lambda cell: alone)
    assert tuning.settled(Options(chunk=0), task("fedavg").cell).chunk == 1


def test_no_real_data_are_trained_on_several_clients_at_once_by_a_cpu() -> None:
    """The committed values of real data are of one client at a time, and stay so."""
    planned = unique(item for scale in ("desk", "paper") for item in plan(Selection(scale=scale)))
    wide = [item for item in planned if operations.together(item.cell.recipe) > 1]
    assert {item.cell.recipe["dataset"] for item in wide} <= {"digits"}


CPU, GPU = {"device": "cpu", "precision": "default"}, {"device": "cuda:0", "precision": "tf32"}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (CPU | {"chunk": operations.TOGETHER, "lanes": 0}, ""),
        (CPU | {"chunk": 1, "lanes": 0}, " --chunk 1"),
        (CPU | {"chunk": 0}, ""),  # it failed before that was settled
        (GPU | {"chunk": 0, "lanes": 0}, " --precision tf32"),
        (CPU | {"chunk": 1, "precision": "bf16"}, " --precision bf16 --chunk 1"),
        (CPU | {"chunk": operations.TOGETHER, "conv": "windows"}, " --conv windows"),
        (GPU | {"chunk": 20, "lanes": 0}, " --precision tf32 --chunk 20 --lanes 0"),
        (GPU | {"chunk": 20, "conv": "matmul"}, " --precision tf32 --conv matmul --chunk 20"),
    ],
)
def test_a_command_says_how_a_run_was_made_where_it_would_be_made_otherwise(
    made: dict[str, Any], said: str
) -> None:
    assert operations.as_made(made, task("fedavg").cell.recipe) == said


def planned_with(model: str) -> Planned:
    """A cell of the papers on real data."""
    planned = plan(Selection(scale="desk"))
    return next(item for item in planned if item.cell.recipe["model"] == model)


@pytest.mark.parametrize(
    ("model", "conv"), [("cnn4", "apart"), ("lenet5", "apart"), ("resnet8", "apart")]
)
def test_a_processor_takes_the_kernels_that_pay_for_a_model(model: str, conv: str) -> None:
    recipe = planned_with(model).cell.recipe
    cell = SimpleNamespace(recipe=recipe)
    assert tuning.settled(Options(chunk=0, conv=""), cell).conv == conv  # type: ignore[arg-type]
    assert tuning.settled(Options(chunk=1, conv="auto"), cell).conv == "auto"  # type: ignore[arg-type]
    half = Options(chunk=1, conv="", precision="bf16")
    assert tuning.settled(half, cell).conv == "auto"  # type: ignore[arg-type]
    assert operations.as_made(CPU | {"chunk": 1, "conv": conv}, recipe) == ""
    early = operations.as_made(CPU | {"chunk": 1}, recipe)
    assert early == ("" if conv == "auto" else " --conv auto")


@pytest.mark.parametrize(
    ("conv", "said"), [("apart", ""), ("windows", " --conv windows"), ("auto", " --conv auto")]
)
def test_a_record_has_the_command_that_computes_as_it_was_made(conv: str, said: str) -> None:
    item = planned_with("resnet8")
    made = products.origin(Task(item.cell, item.command), Options(conv=conv))
    assert made["command"] == item.command + said


@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1}', "no json"])
def test_a_damaged_memory_is_measured_anew(counted: list[Any], text: str) -> None:
    tuning.path().parent.mkdir(parents=True)
    tuning.path().write_text(text)
    assert tuning.settled(OPEN, task("fedavg").cell).lanes == 8
    assert len(counted) == 1
    assert tuning.settled(OPEN, task("fedavg").cell).lanes == 8
    assert len(counted) == 1


def test_a_tuning_in_which_nothing_ran_is_not_remembered(
    counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, refused = tuning._measured, [{"chunk": 1, "refused": "the driver is old"}]
    monkeypatch.setattr(tuning, "_measured", lambda job: counting(job) | {"trials": refused})
    for attempts in (1, 2):
        assert tuning.settled(OPEN, task("fedavg").cell).lanes == 8
        assert len(counted) == attempts


def test_memory_that_runs_out_lowers_the_choice_for_the_next_cell(counted: list[Any]) -> None:
    cell = task("fedavg").cell
    first = tuning.settled(OPEN, cell)
    less = tuning.smaller(first)
    assert less is not None
    assert tuning.settled(OPEN, cell).lanes == less.lanes == 4
    tuning.smaller(Options(device="cuda:0", chunk=2))  # what the user chose is not remembered
    assert tuning.settled(OPEN, cell).lanes == 4
    assert len(counted) == 1


def test_memory_that_runs_out_halves_lanes_then_chunks_then_ends() -> None:
    options: Options | None = Options(device="cuda:0", chunk=2, lanes=4)
    seen = []
    while options is not None:
        seen.append((options.chunk, options.lanes))
        options = tuning.smaller(options)
    assert seen == [(2, 4), (2, 2), (2, 1), (1, 1), (1, 0)]
