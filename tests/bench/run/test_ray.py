"""Cells on a Ray cluster: the same bits as here, also when a machine is lost, and a clean end when
the user wants one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repfl.bench.errors import UserError
from repfl.bench.grid import plugins
from repfl.bench.run.executors import ray as on_ray
from tests.bench.conftest import digests, task
from tests.bench.run.test_executors import execute
from tests.bench.run.test_runner import nothing_left

ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'repfl[ray]'")

NOTED = '''"""Writes down its rounds and takes its time: from the third on, two cells are at it."""

import os
import time
from pathlib import Path

from repfl.algorithms.core.method import hyperparameters, param, register
from tests.bench.faulty import Steady


@hyperparameters
class HP:
    at: int = param(2, "round in which it goes wrong", ge=1)
    seconds: float = param(0.05, "how long a round takes", ge=0)


@register(
    "test-noted", title="test-noted", paper="none", year=2026, family="partial", sends="everything"
)
class Noted(Steady):
    HP = HP

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

    small = {"object_store_memory": on_ray.LOCAL_STORE, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """A cluster of this machine alone, shared by the tests that need no other."""
    on_ray.connect(2)
    yield
    ray.shutdown()


# -- a cluster of this machine alone ---------------------------------------------------------------


def test_a_cluster_changes_no_bit(alone: None, tmp_path: Path) -> None:
    tasks = [task(), task("fedpurin", model="tiny-bn"), task("dfedavgm", clients=4)]
    tasks = [replace(each, memory=1 << 30) for each in tasks]
    told: set[str] = set()
    tell = lambda cell, _: told.add(cell)  # noqa: E731
    outcomes = execute("ray", tasks, tmp_path / "ray", 2, tell=tell)
    assert [outcome.status for outcome in outcomes] == ["done"] * 3
    assert told <= {each.cell.id for each in tasks}
    execute("inline", tasks, tmp_path / "inline", 1)
    assert digests(tmp_path / "ray") == digests(tmp_path / "inline")
    assert nothing_left(tmp_path / "ray")


def test_addresses_that_lead_nowhere_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for address, words in (("head", "HOST:PORT"), ("127.0.0.1:1", "no Ray cluster")):
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UserError, match=words):
            on_ray.connect()


# -- several machines ------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_machine_lost_in_the_middle_costs_nothing(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin, log, rounds = tmp_path / "noted.py", tmp_path / "log", 15
    plugin.write_text(NOTED)
    log.touch()
    monkeypatch.setenv("REPFL_TEST_LOG", str(log))
    monkeypatch.setenv("RAY_ADDRESS", cluster.address)
    plugins.load([str(plugin)])
    hp, training = {"at": 1, "seconds": 0.0}, {"rounds": rounds}
    tasks = [task("test-noted", seed, hp, training=training) for seed in range(5)]
    small = {"num_cpus": 1, "object_store_memory": on_ray.LOCAL_STORE}
    nodes = [cluster.add_node(**small) for _ in range(2)]
    lost: list[Any] = []

    def tell(cell: str, _: int) -> None:
        """Lose a machine once both are in the middle of a cell."""
        seen = Counter(line.split()[0] for line in log.read_text().splitlines())
        if not lost and sum(3 <= count < rounds - 3 for count in seen.values()) >= 2:
            lost.append(nodes[0])
            plugin.unlink()  # the new tries have it from the driver
            cluster.remove_node(nodes[0], allow_graceful=False)

    how: dict[str, Any] = {"checkpoint_every": 0.001, "plugins": (str(plugin),)}
    outcomes = execute("ray", tasks, tmp_path / "ray", 4, tell=tell, **how)
    assert lost, outcomes
    assert sorted(outcome.status for outcome in outcomes) == ["done"] * 5
    lines = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    computed = Counter((seed, round_) for seed, round_, _ in lines)
    assert set(computed) == {(seed, round_) for seed in range(5) for round_ in range(1, rounds + 1)}
    assert sum(computed.values()) <= 5 * rounds + 1  # the round that was cut off
    plugin.write_text(NOTED)
    execute("inline", tasks, tmp_path / "inline", 1, plugins=(str(plugin),))
    assert digests(tmp_path / "ray") == digests(tmp_path / "inline")
    assert nothing_left(tmp_path / "ray")
