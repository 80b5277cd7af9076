"""Peak memory of a run: all models twice while they are mixed or trained, and what a few clients
need at a time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from repfl.algorithms.core.method import methods

ROOT = Path(__file__).parents[2]
GIB = 1 << 30
BLOCKS = 0.3 * GIB
"""Memory for a few clients or columns at a time; it does not grow with the number of clients."""
EXACT = {"MALLOC_MMAP_THRESHOLD_": str(1 << 20), "MALLOC_ARENA_MAX": "1"}
"""Have glibc return freed memory; by itself it keeps gaps, half a copy in one run of three."""
DECENTRALISED = tuple(name for name, entry in methods().items() if entry.cls.decentralised)

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(),
    reason="a process's own high-water mark is read from /proc",
)


def measured(
    method: str,
    model: str,
    *,
    clients: int = 100,
    batch: int,
    participation: float = 1.0,
    rounds: int = 2,
) -> dict[str, int]:
    """Return the memory of a fresh process before the run and at most, and that of one copy of all
    models.
    """
    words = [method, model, *map(str, (clients, batch, participation, rounds))]
    command = [sys.executable, "-m", "tests.algorithms.one_round", *words]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **EXACT}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


def available() -> int:
    """Return the bytes of memory that are free or can be freed."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(text.split()[1]) * 1024 for text in lines if text.startswith("MemAvail"))


def test_a_gossip_round_holds_all_models_twice_and_never_three_times() -> None:
    """Dis-PFL needs the most, 2.5 copies: two of its masks are another half copy."""
    found = measured("dis-pfl", "cnn4", clients=48, batch=8, rounds=1)
    assert found["peak"] - found["before"] < 2.75 * found["copy"] + BLOCKS


def test_a_round_with_a_server_holds_personal_models_once() -> None:
    found = measured("ditto", "cnn4", clients=80, batch=8, participation=0.05, rounds=1)
    assert found["peak"] - found["before"] < found["copy"] + BLOCKS


@pytest.mark.slow
@pytest.mark.parametrize("method", DECENTRALISED)
def test_100_clients_with_a_resnet18_and_no_server_take_at_most_12_gib(method: str) -> None:
    if available() < 13 * GIB:
        pytest.skip("needs 13 GiB of free memory")
    found = measured(method, "resnet18-gn", batch=128, rounds=1)
    assert found["peak"] <= 12 * GIB


@pytest.mark.slow
def test_100_clients_of_fedobp_take_at_most_3_gib() -> None:
    assert measured("fedobp", "cnn4", batch=32, participation=0.1, rounds=3)["peak"] <= 3 * GIB
