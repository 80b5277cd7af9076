"""Memory and time of a round over the number of clients, of whom 100 take part: a process of its
own for each, and a figure of all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median
from time import process_time

import pytest

from repfl.bench.run.machine import keep_freed_memory
from tests.speed.clients import run_of
from tests.speed.conftest import Figure

pytestmark = pytest.mark.speed
CLIENTS = {"fedavg": 10_000, "fedper": 10_000, "fedobp": 1_000, "fedpurin": 1_000}
"""The last two keep a whole model of every client."""
PARTICIPANTS, SAMPLES, ROUNDS = 100, 16, 3
ROOT = Path(__file__).parents[2]


def measure(method: str, clients: int) -> dict[str, float]:
    """Return this process's peak memory in bytes, and the CPU seconds of a round."""
    keep_freed_memory()
    participation = PARTICIPANTS / clients
    run = run_of(method, "cnn4", (SAMPLES,) * clients, batch=SAMPLES, participation=participation)
    seconds = []
    for _ in range(ROUNDS):
        begun = process_time()
        run.step()
        seconds.append(process_time() - begun)
    status = Path("/proc/self/status").read_text()
    peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return {"bytes": 1024 * int(peak.split()[1]), "seconds": median(seconds)}


@cache
def measured(method: str, clients: int) -> dict[str, float]:
    """Return the same of a process of its own, of one thread."""
    command = [sys.executable, "-m", "tests.speed.test_many_clients", method, str(clients)]
    where = {"cwd": ROOT, "env": os.environ | {"OMP_NUM_THREADS": "1"}}
    done = subprocess.run(command, capture_output=True, text=True, check=True, **where)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("method", CLIENTS)
def test_many_clients_fit_into_8_gb(figure: Figure, method: str) -> None:
    assert figure.once(lambda: measured(method, CLIENTS[method])["bytes"] / 1e9, "GB") < 8


@pytest.mark.parametrize("method", CLIENTS)
def test_a_round_costs_what_its_participants_cost(figure: Figure, method: str) -> None:
    def ratio() -> float:
        few, many = (measured(method, clients)["seconds"] for clients in (100, CLIENTS[method]))
        return many / few

    assert figure.once(ratio, "times the seconds of 100 clients") < 1.3


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
