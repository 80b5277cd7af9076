"""Runs from the outside: killed, stopped, several at once. Nothing is lost, nothing is done twice, nothing half-done is seen."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bench.records.store import Store
from tests.bench.conftest import FAULTY, GRID, repfl, start

SLOW = GRID.replace("rounds = 2", "rounds = 12").replace(
    '{ label = "FedAvg", method = "fedavg" }]\nrecipes = ["two", "three"]',
    '{ label = "S", method = "test-slow", hp = { seconds = 0.1 } }]\nrecipes = ["two", "three"]',
)

CELLS = 10
"""Distinct cells of that grid."""


def slow_grid(tmp_path: Path) -> Path:
    """Cells that last over a second, with a checkpoint in every round."""
    path = tmp_path / "tests.toml"
    path.write_text(SLOW)
    return path


def command(grid: Path, results: Path, *more: str) -> list[str | Path]:
    return ["run", "--grid", grid, "--results", results, "--plugin", FAULTY, "--checkpoint", "0.001", *more]


def digests(results: Path) -> dict[str, dict[str, str]]:
    """Digests of all records, each of them whole and done."""
    store, found = Store(results), {}
    for cell in store.ids():
        record = store.get(cell)
        assert record is not None
        store.verify(record)
        assert record.status == "done", record.reason
        found[cell] = record.provenance["digests"]
    return found


def nothing_left(results: Path) -> bool:
    running = results / ".running"
    return not running.exists() or not list(running.iterdir())


def kill(process: subprocess.Popen[str], number: int) -> None:
    os.killpg(process.pid, number)
    process.wait(60)


def run_with_kills(grid: Path, results: Path, kills: int, seed: int, longest: float, *more: str) -> None:
    """Start a run again and again, killing everything it started at random instants; then let it end."""
    rng = random.Random(seed)
    for _ in range(kills):
        process = start(*command(grid, results, *more))
        time.sleep(rng.uniform(2.0, longest))
        kill(process, signal.SIGKILL)
        digests(results)
    last = repfl(*command(grid, results, *more))
    assert last.returncode == 0, last.stderr


def test_a_run_killed_at_random_ends_with_the_bits_of_one_that_was_not(tmp_path: Path) -> None:
    grid = slow_grid(tmp_path)
    assert repfl(*command(grid, tmp_path / "whole")).returncode == 0
    run_with_kills(grid, tmp_path / "killed", 3, 0, 6.0, "--executor", "inline", "--method", "test-slow")
    assert repfl(*command(grid, tmp_path / "killed")).returncode == 0
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
    assert nothing_left(tmp_path / "killed")


@pytest.mark.parametrize(("number", "executor"), [(signal.SIGTERM, "processes"), (signal.SIGINT, "inline")])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, number: int, executor: str) -> None:
    grid = slow_grid(tmp_path)
    process = start(*command(grid, tmp_path / "r", "--executor", executor))
    while not list((tmp_path / "r").glob(".running/*.safetensors")):
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]
    process.send_signal(number)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 128 + number
    assert "stopped by a signal" in output
    assert "Traceback" not in output
    assert not list((tmp_path / "r").glob(".running/*.lock"))
    digests(tmp_path / "r")
    assert list((tmp_path / "r").glob(".running/*.safetensors"))


def test_two_runners_share_the_cells(tmp_path: Path) -> None:
    grid = slow_grid(tmp_path)
    runners = [start(*command(grid, tmp_path / "r", "--workers", "1")) for _ in range(2)]
    outputs = [runner.communicate(timeout=200)[0] for runner in runners]
    assert [runner.returncode for runner in runners] == [0, 0], outputs
    computed = [int(line.split(" computed")[0].split()[-1]) for output in outputs for line in output.splitlines() if " computed" in line]
    assert sum(computed) == CELLS
    assert len(digests(tmp_path / "r")) == CELLS
    assert nothing_left(tmp_path / "r")


def test_surroundings_change_no_bit(tmp_path: Path) -> None:
    grid = tmp_path / "tests.toml"
    grid.write_text(GRID)
    (tmp_path / "elsewhere").mkdir()
    one = repfl(
        "run",
        "--grid",
        grid,
        "--results",
        tmp_path / "one",
        "--workers",
        "1",
        OMP_NUM_THREADS="1",
        TZ="UTC",
        LC_ALL="C",
        PYTHONHASHSEED="0",
    )
    other = repfl(
        *("run", "--grid", grid, "--results", tmp_path / "other", "--workers", "2"),
        cwd=tmp_path / "elsewhere",
        OMP_NUM_THREADS="4",
        MKL_NUM_THREADS="3",
        TZ="Asia/Tokyo",
        LC_ALL="C.UTF-8",
        PYTHONHASHSEED="77",
    )
    assert (one.returncode, other.returncode) == (0, 0), one.stderr + other.stderr
    assert digests(tmp_path / "one") == digests(tmp_path / "other")


# -- the long ones -------------------------------------------------------------------------------------------------------------------------

FAMILIES = ("fedavg", "fedpurin", "dfedavgm", "ditto", "test-slow")


@pytest.mark.slow
def test_fifty_kills_over_every_family(tmp_path: Path) -> None:
    rows = ", ".join(f'{{ label = "{name}", method = "{name}" }}' for name in FAMILIES)
    text = GRID.replace('{ label = "Local", method = "local" }, { label = "FedAvg", method = "fedavg" }', rows)
    grid = tmp_path / "tests.toml"
    grid.write_text(
        text.replace("rounds = 2", "rounds = 60").replace("alpha = 0.5, train = 20, test = 10", "alpha = 0.5, train = 60, test = 30")
    )
    assert repfl(*command(grid, tmp_path / "whole")).returncode == 0
    whole = digests(tmp_path / "whole")
    run_with_kills(grid, tmp_path / "killed", 50, 1, 5.0, "--workers", "2")
    assert digests(tmp_path / "killed") == whole
    assert nothing_left(tmp_path / "killed")


@pytest.mark.slow
def test_four_runners_on_sixty_cells_with_one_killed(tmp_path: Path) -> None:
    grid = tmp_path / "tests.toml"
    grid.write_text(SLOW.replace("seeds = [0, 1]", f"seeds = {list(range(12))}"))
    runners = [start(*command(grid, tmp_path / "r", "--workers", "1")) for _ in range(4)]
    time.sleep(12)
    kill(runners[0], signal.SIGKILL)
    outputs = [runner.communicate(timeout=600)[0] for runner in runners[1:]]
    assert [runner.returncode for runner in runners[1:]] == [0, 0, 0], outputs
    assert len(digests(tmp_path / "r")) == 60
    assert nothing_left(tmp_path / "r")
