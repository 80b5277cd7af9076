"""Where a cell runs changes none of its bits, and a worker that dies costs one cell."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.run import machine, runner
from repfl.bench.run.executors import EXECUTORS, ray
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, digests, refusal, task

pytestmark = pytest.mark.usefixtures("forked")


def execute(
    name: str,
    tasks: Sequence[Task],
    root: Path,
    workers: int,
    stop: Callable[[], bool] = lambda: False,
    tell: Any = lambda *_: None,
    **options: Any,
) -> list[Outcome]:
    Store(root).open()
    return list(EXECUTORS[name](tasks, Options(str(root), **options), workers, tell, stop))


def test_neither_workers_nor_order_nor_a_dying_worker_change_a_bit_of_other_cells(
    tmp_path: Path, faulty: Path
) -> None:
    deadly = task("test-die", hp={"at": 1})
    tasks = [task("fedavg"), task("fedpurin", model="tiny-bn"), task("local", clients=4)]
    done = execute("inline", tasks, tmp_path / "a", 1)
    assert [outcome.status for outcome in done] == ["done"] * 3
    order = [tasks[2], deadly, tasks[1], tasks[0]]
    ended = {
        each.id: each
        for each in execute("processes", order, tmp_path / "b", 2, plugins=(str(faulty),))
    }
    assert [ended[each.cell.id].status for each in order] == ["done", "failed", "done", "done"]
    assert "SIGKILL" in ended[deadly.cell.id].reason
    shutil.rmtree(tmp_path / "b" / deadly.cell.id)
    assert digests(tmp_path / "b") == digests(tmp_path / "a")
    assert list((tmp_path / "b" / ".running").iterdir()) == []


@pytest.mark.skipif(not machine.gpus(), reason="needs a GPU")
def test_sharing_a_gpu_changes_no_bit(tmp_path: Path) -> None:
    tasks = [task("fedavg", seed, training={"rounds": 40}) for seed in range(4)]
    execute("inline", tasks, tmp_path / "alone", 1, device="cuda", stack=2)
    execute("processes", tasks, tmp_path / "shared", 2 * machine.gpus(), device="cuda", stack=2)
    assert len(digests(tmp_path / "alone")) == 4
    assert digests(tmp_path / "shared") == digests(tmp_path / "alone")


def test_a_wish_to_stop_starts_no_further_cell(tmp_path: Path) -> None:
    for name in ("inline", "processes"):
        assert execute(name, [task(), task(seed=1)], tmp_path, 1, stop=lambda: True) == []
    assert Store(tmp_path).ids() == []


def test_workers_in_the_middle_of_a_round_are_ended_at_once(tmp_path: Path, faulty: Path) -> None:
    tasks = [task("test-slow", seed, hp={"seconds": 60.0}) for seed in range(2)]
    begun: set[str] = set()

    def tell(cell: str, rounds: int) -> None:
        begun.add(cell)
        if len(begun) == 2:
            raise KeyboardInterrupt  # as a second Ctrl-C does

    with pytest.raises(KeyboardInterrupt):
        execute("processes", tasks, tmp_path, 2, tell=tell, plugins=(str(faulty),))
    skipped = [replace(each, skip="their locks are free") for each in tasks]
    assert [each.status for each in execute("inline", skipped, tmp_path, 1)] == ["skipped"] * 2


def test_a_worker_that_dies_between_two_cells_costs_none(tmp_path: Path) -> None:
    Store(tmp_path).open()
    tasks, options = [task(seed=seed) for seed in range(2)], Options(str(tmp_path))
    outcomes = EXECUTORS["processes"](tasks, options, 1, lambda *_: None, lambda: False)
    first = next(outcomes)
    for worker in multiprocessing.active_children():
        worker.kill()
        worker.join()
    assert [each.status for each in (first, *outcomes)] == ["done", "done"]


def test_cells_that_do_not_fit_beside_each_other_run_one_after_the_other(tmp_path: Path) -> None:
    tasks = [replace(task(seed=seed), memory=6.0) for seed in range(3)]
    running: set[str] = set()
    Store(tmp_path).open()
    options = Options(str(tmp_path), memory=10.0)
    begin, never = lambda cell, _: running.add(cell), lambda: False
    for outcome in EXECUTORS["processes"](tasks, options, 2, begin, never):
        assert running == {outcome.id}
        running.clear()
    assert len(digests(tmp_path)) == 3


def test_per_gpu_alone_says_how_many_cells_share_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: 2)
    monkeypatch.setattr(machine, "processors", lambda: 8)
    for workers, device, per_gpu, expected in (
        (None, "cpu", 1, 8), (3, "cpu", 1, 3), (None, "cuda", 1, 2), (None, "cuda", 3, 6),
        (4, "cuda", 3, 4), (9, "cuda", 1, 2),
    ):  # fmt: skip
        options = Options(device=device, per_gpu=per_gpu)
        assert runner.choose_executor(None, workers, 99, options) == ("processes", expected)
        assert runner.choose_executor("inline", None, 10, options) == ("inline", 1)


def test_an_executor_that_cannot_be_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    missing = refusal(lambda: runner.resolve_device("auto", "ray"))
    assert 'pip install "repfl[ray]"' in missing
    assert "in one process" in refusal(lambda: runner.check_executor("inline", 2))


def test_plugins_reach_machines_that_do_not_have_the_file() -> None:
    path = ray._unpacked("/nowhere/at/all.py", text := FAULTY.read_text())
    assert (Path(path).name, Path(path).read_text()) == ("all.py", text)
