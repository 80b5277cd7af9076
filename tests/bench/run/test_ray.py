"""Cells on a Ray cluster: the same bits as here, also when a machine is lost, and a clean end when
the user wants one.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid import plugins
from repfl.bench.run.executors import EXECUTORS
from repfl.bench.run.executors import cluster as clusters
from repfl.bench.run.executors import ray as executor
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.store.store import Store
from tests.bench.conftest import FAULTY, task
from tests.bench.run.test_executors import digests
from tests.bench.run.test_runner import command, nothing_left, slow_grid, start

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'repfl[ray]'")

NOTED = '''"""Writes down its rounds and takes its time: from the third on, two cells are at it."""

import os
import time
from pathlib import Path

from repfl.algorithms.core.method import register
from tests.bench.faulty import Steady


@register(
    "test-noted", title="test-noted", paper="none", year=2026, family="test", sends="everything"
)
class Noted(Steady):
    def fault(self, fed):
        log, late = Path(os.environ["REPFL_TEST_LOG"]), time.monotonic() + 120
        with log.open("a") as file:
            file.write(f"{fed.streams.seed} {fed.round} {os.getpid()}\\n")
        while fed.round == 3 and time.monotonic() < late:
            if len({line.split()[2] for line in log.read_text().splitlines()}) > 1:
                break
            time.sleep(0.1)
        time.sleep(0.2)
'''


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A machine for the driver, which runs no cells; others join it."""
    from ray.cluster_utils import Cluster

    ray.shutdown()

    small = {"object_store_memory": clusters.LOCAL_STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """A cluster of this machine alone, shared by the tests that need no other."""
    clusters.connect("local", 2)
    yield
    ray.shutdown()


def execute(
    tasks: list[Task],
    root: Path,
    workers: int,
    tell: Any = lambda *_: None,
    stop: Any = lambda: False,
    **more: Any,
) -> list[Outcome]:
    Store(root).open()
    return list(EXECUTORS["ray"](tasks, Options(str(root), **more), workers, tell, stop))


# -- a cluster of this machine alone ---------------------------------------------------------------


def test_a_cluster_changes_no_bit(alone: None, tmp_path: Path) -> None:
    tasks = [
        task("fedavg", 0),
        task("fedpurin", 0, model="tiny-bn"),
        task("dfedavgm", 0, clients=4),
    ]
    told: list[str] = []
    outcomes = execute(tasks, tmp_path / "ray", 2, lambda cell, _: told.append(cell))
    assert [outcome.status for outcome in outcomes] == ["done"] * 3
    assert set(told) <= {each.cell.id for each in tasks}
    Store(tmp_path / "inline").open()
    list(
        EXECUTORS["inline"](
            tasks, Options(str(tmp_path / "inline")), 1, lambda *_: None, lambda: False
        )
    )
    assert digests(tmp_path / "ray") == digests(tmp_path / "inline")
    record = Store(tmp_path / "ray").get(tasks[0].cell.id)
    assert record is not None
    assert record.provenance["threads"] == 1
    assert nothing_left(tmp_path / "ray")


def test_what_no_machine_can_run_ends_the_run(alone: None, tmp_path: Path) -> None:
    plugin = tmp_path / "broken.py"
    plugin.write_text("raise ValueError('not here')\n")
    (outcome,) = execute([task()], tmp_path / "r", 1, plugins=(str(plugin),))
    assert outcome.status == "fatal"
    assert "not here" in outcome.reason


def test_a_wish_to_stop_leaves_waiting_cells_alone(alone: None, tmp_path: Path) -> None:
    outcomes = execute([task(seed=seed) for seed in range(3)], tmp_path, 3, stop=lambda: True)
    assert {outcome.status for outcome in outcomes} <= {"interrupted"}
    assert Store(tmp_path).ids() == []


@pytest.mark.parametrize(
    ("address", "words"),
    [("ray://head:10001", "HOST:PORT"), ("head", "HOST:PORT"), ("127.0.0.1:1", "no Ray cluster")],
)
def test_addresses_that_lead_nowhere_are_refused_at_once(address: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        clusters.connect(address)


@pytest.mark.slow
def test_a_cell_that_kills_its_process_again_and_again_is_a_failed_record(
    alone: None, tmp_path: Path, faulty: Path
) -> None:
    tasks = [task("test-die", hp={"at": 1}), task(seed=1)]
    outcomes = {
        outcome.id: outcome for outcome in execute(tasks, tmp_path, 2, plugins=(str(FAULTY),))
    }
    assert [outcomes[each.cell.id].status for each in tasks] == ["failed", "done"]
    assert f"{executor.TRIES} times" in outcomes[tasks[0].cell.id].reason


# -- several machines ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_machine_lost_in_the_middle_costs_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, log = tmp_path / "noted.py", tmp_path / "log"
    plugin.write_text(NOTED)
    monkeypatch.setenv("REPFL_TEST_LOG", str(log))
    rounds = 15
    plugins.load([str(plugin)])
    tasks = [
        task("test-noted", seed, {"at": 1, "seconds": 0.0}, training={"rounds": rounds})
        for seed in range(5)
    ]
    nodes = [
        cluster.add_node(num_cpus=1, object_store_memory=clusters.LOCAL_STORE) for _ in range(2)
    ]
    lost: list[Any] = []

    def tell(cell: str, _: int) -> None:
        seen = (
            Counter(line.split()[0] for line in log.read_text().splitlines())
            if log.exists()
            else Counter()
        )
        if (
            not lost and sum(3 <= count < rounds - 3 for count in seen.values()) >= 2
        ):  # both machines are in the middle of a cell
            lost.append(nodes[0])
            plugin.unlink()  # the new tries have it from the driver
            cluster.remove_node(nodes[0], allow_graceful=False)

    outcomes = execute(
        tasks,
        tmp_path / "ray",
        4,
        tell,
        address=cluster.address,
        checkpoint_every=0.001,
        plugins=(str(plugin),),
    )
    assert lost, outcomes
    assert sorted(outcome.status for outcome in outcomes) == ["done"] * 5
    assert {outcome.id for outcome in outcomes} == {each.cell.id for each in tasks}
    lines = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    computed = Counter((seed, round_) for seed, round_, _ in lines)
    assert set(computed) == {(seed, round_) for seed in range(5) for round_ in range(1, rounds + 1)}
    assert sum(computed.values()) <= 5 * rounds + 1  # the round that was cut off
    moved = [
        seed for seed in range(5) if len({pid for which, _, pid in lines if which == seed}) > 1
    ]
    assert len(moved) == 1
    plugin.write_text(NOTED)
    Store(tmp_path / "inline").open()
    list(
        EXECUTORS["inline"](
            tasks,
            Options(str(tmp_path / "inline"), plugins=(str(plugin),)),
            1,
            lambda *_: None,
            lambda: False,
        )
    )
    assert digests(tmp_path / "ray") == digests(tmp_path / "inline")
    assert nothing_left(tmp_path / "ray")


# -- from the outside ------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("number", "everybody"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, number: int, everybody: bool) -> None:
    """A batch system's SIGTERM reaches the driver, a terminal's Ctrl-C everybody."""
    results = tmp_path / "r"
    process = start(
        *command(
            slow_grid(tmp_path),
            results,
            "--executor",
            "ray",
            "--workers",
            "2",
            "--method",
            "test-slow",
        )
    )
    while not list(results.glob(".running/*.safetensors")):
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]
    (os.killpg if everybody else os.kill)(process.pid, number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + number, output
    assert "stopped by a signal" in output
    assert "Traceback" not in output
    assert not list(results.glob(".running/*.lock"))
    assert list(results.glob(".running/*.safetensors"))
