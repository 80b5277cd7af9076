"""Where a cell runs changes none of its bits, and a worker that dies costs one cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.records.store import Store
from bench.running.executors import EXECUTORS
from bench.running.task import Options, Outcome, Task
from tests.bench.conftest import task


def execute(
    name: str, tasks: Sequence[Task], root: Path, workers: int, stop: Callable[[], bool] = lambda: False, **options: Any
) -> list[Outcome]:
    Store(root).open()
    return list(EXECUTORS[name](tasks, Options(str(root), **options), workers, lambda *_: None, stop))


def digests(root: Path) -> dict[str, dict[str, str]]:
    store = Store(root)
    records = [store.get(cell) for cell in store.ids()]
    return {record.id: record.provenance["digests"] for record in records if record is not None}


def test_executors_workers_and_order_change_no_bit(tmp_path: Path) -> None:
    tasks = [task("fedavg", seed) for seed in range(3)] + [task("fedpurin", model="tiny-bn"), task("local", clients=4)]
    for folder, name, workers, order in (("a", "inline", 1, 1), ("b", "processes", 1, -1), ("c", "processes", 2, 1)):
        outcomes = execute(name, tasks[::order], tmp_path / folder, workers)
        assert [outcome.status for outcome in outcomes] == ["done"] * 5
    assert digests(tmp_path / "a") == digests(tmp_path / "b") == digests(tmp_path / "c")
    assert len(digests(tmp_path / "a")) == 5


def test_a_dying_worker_costs_its_cell_and_nothing_else(tmp_path: Path, faulty: Path) -> None:
    tasks = [task("test-die", hp={"at": 1}), task(seed=1), task(seed=2)]
    outcomes = {outcome.id: outcome for outcome in execute("processes", tasks, tmp_path, 1, plugins=(str(faulty),))}
    assert [outcomes[each.cell.id].status for each in tasks] == ["failed", "done", "done"]
    assert "SIGKILL" in outcomes[tasks[0].cell.id].reason
    record = Store(tmp_path).get(tasks[0].cell.id)
    assert record is not None
    assert record.status == "failed"
    assert list((tmp_path / ".running").iterdir()) == []


def test_a_round_that_outlasts_the_time_limit_is_cut(tmp_path: Path, faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.running.executors.GRACE", 0.5)
    tasks = [task("test-slow", hp={"seconds": 60.0}), task()]
    outcomes = {outcome.id: outcome for outcome in execute("processes", tasks, tmp_path, 1, time_limit=8.0, plugins=(str(faulty),))}
    assert [outcomes[each.cell.id].status for each in tasks] == ["failed", "done"]
    assert "time limit of 8 s" in outcomes[tasks[0].cell.id].reason


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_a_wish_to_stop_starts_no_further_cell(tmp_path: Path, name: str) -> None:
    assert execute(name, [task(), task(seed=1)], tmp_path, 1, stop=lambda: True) == []
    assert Store(tmp_path).ids() == []
