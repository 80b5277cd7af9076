"""Where a cell runs changes none of its bits, and a worker that dies costs one cell."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.run import devices, runner
from repfl.bench.run.executors import EXECUTORS, processes, ray
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, task


def execute(
    name: str,
    tasks: Sequence[Task],
    root: Path,
    workers: int,
    stop: Callable[[], bool] = lambda: False,
    **options: Any,
) -> list[Outcome]:
    Store(root).open()
    return list(
        EXECUTORS[name](tasks, Options(str(root), **options), workers, lambda *_: None, stop)
    )


def digests(root: Path) -> dict[str, dict[str, str]]:
    store = Store(root)
    records = [store.get(cell) for cell in store.ids()]
    return {record.id: record.provenance["digests"] for record in records if record is not None}


def test_executors_workers_and_order_change_no_bit(tmp_path: Path) -> None:
    tasks = [task("fedavg", seed) for seed in range(3)] + [
        task("fedpurin", model="tiny-bn"),
        task("local", clients=4),
    ]
    for folder, name, workers, order in (("a", "inline", 1, 1), ("b", "processes", 2, -1)):
        outcomes = execute(name, tasks[::order], tmp_path / folder, workers)
        assert [outcome.status for outcome in outcomes] == ["done"] * 5
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert len(digests(tmp_path / "a")) == 5


@pytest.mark.skipif(not devices.gpus(), reason="needs a GPU")
def test_sharing_a_gpu_changes_no_bit(tmp_path: Path) -> None:
    tasks = [task("fedavg", seed, training={"rounds": 40}) for seed in range(4)]
    execute("inline", tasks, tmp_path / "alone", 1, device="cuda", stack=2)
    execute(
        "processes",
        tasks,
        tmp_path / "shared",
        2 * devices.gpus(),
        device="cuda",
        stack=2,
        per_gpu=2,
    )
    assert len(digests(tmp_path / "alone")) == 4
    assert digests(tmp_path / "shared") == digests(tmp_path / "alone")
    records = [Store(tmp_path / "shared").get(each.cell.id) for each in tasks]
    assert {record.provenance["device"] for record in records if record is not None} <= set(
        devices.places("cuda")
    )


def test_a_dying_worker_costs_its_cell_and_nothing_else(tmp_path: Path, faulty: Path) -> None:
    tasks = [task("test-die", hp={"at": 1}), task(seed=1), task(seed=2)]
    outcomes = {
        outcome.id: outcome
        for outcome in execute("processes", tasks, tmp_path, 1, plugins=(str(faulty),))
    }
    assert [outcomes[each.cell.id].status for each in tasks] == ["failed", "done", "done"]
    assert "SIGKILL" in outcomes[tasks[0].cell.id].reason
    record = Store(tmp_path).get(tasks[0].cell.id)
    assert record is not None
    assert record.status == "failed"
    assert list((tmp_path / ".running").iterdir()) == []


def test_a_round_that_outlasts_the_time_limit_is_cut(
    tmp_path: Path, faulty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("repfl.bench.run.executors.processes.GRACE", 0.5)
    tasks = [task("test-slow", hp={"seconds": 60.0}), task()]
    outcomes = {
        outcome.id: outcome
        for outcome in execute(
            "processes", tasks, tmp_path, 1, time_limit=8.0, plugins=(str(faulty),)
        )
    }
    assert [outcomes[each.cell.id].status for each in tasks] == ["failed", "done"]
    assert "time limit of 8 s" in outcomes[tasks[0].cell.id].reason


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_a_wish_to_stop_starts_no_further_cell(tmp_path: Path, name: str) -> None:
    assert execute(name, [task(), task(seed=1)], tmp_path, 1, stop=lambda: True) == []
    assert Store(tmp_path).ids() == []


def test_a_second_wish_to_stop_waits_no_longer_for_many_workers_than_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, killed = [0.0], []

    class Busy:
        """A process in the middle of a round, which takes all the time that it is given."""

        def join(self, timeout: float = 0.0) -> None:
            clock[0] += timeout

        def is_alive(self) -> bool:
            return True

        def kill(self) -> None:
            killed.append(self)

    pool = processes.WorkerPool(Options(), 8)
    pipes = [pool.context.Pipe()[0] for _ in range(8)]
    pool.workers = [processes._Worker(Busy(), pipe, Options()) for pipe in pipes]
    monkeypatch.setattr(processes.time, "monotonic", lambda: clock[0])
    pool.dismiss()
    assert len(killed) == 8
    assert clock[0] == 2.0


def test_a_missing_ray_is_one_line_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r'pip install "repfl\[ray\]"'):
        ray.connect()
    with pytest.raises(UserError, match="repfl"):
        runner.resolve_device("auto", "ray")


def test_plugins_reach_machines_that_do_not_have_the_file() -> None:
    text = FAULTY.read_text()
    (path,) = ray._unpacked({"/nowhere/at/all.py": text})
    assert (Path(path).name, Path(path).read_text()) == ("all.py", text)
    assert ray._unpacked({"/nowhere/at/all.py": text}) == (path,)
