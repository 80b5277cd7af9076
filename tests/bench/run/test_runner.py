"""Runs from the outside: killed, stopped, several at once. Nothing is lost, nothing is done twice,
nothing half-done is seen.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from repfl.bench.cli.main import call
from repfl.bench.run import runner
from tests import PATIENCE
from tests.bench.conftest import FAULTY, GRID, ROOT, Here, digests, environment, repfl

SLOW = GRID.replace("rounds = 2", "rounds = 12").replace(
    '{ label = "FedAvg", method = "fedavg" }]\nrecipes = ["two", "three"]',
    '{ label = "S", method = "test-slow", hp = { seconds = 0.1 } }]\nrecipes = ["two", "three"]',
)

CELLS = 10
"""Distinct cells of that grid."""


def slow_grid(tmp_path: Path, rounds: int = 12) -> Path:
    """Cells that last over a second, with a checkpoint in every round."""
    path = tmp_path / "tests.toml"
    path.write_text(SLOW.replace("rounds = 12", f"rounds = {rounds}"))
    return path


def command(grid: Path, results: Path, *more: str) -> list[str | Path]:
    where: list[str | Path] = ["run", "--grid", grid, "--results", results]
    return [*where, "--plugin", FAULTY, "--checkpoint", "0.001", *more]


def nothing_left(results: Path) -> bool:
    running = results / ".running"
    return not running.exists() or not list(running.iterdir())


def test_a_signal_is_answered_at_once_and_a_second_one_obeyed() -> None:
    """In the main thread; elsewhere signals are left alone."""
    said: list[str] = []
    stop = runner.Stop(said.append)
    with stop.listening():
        os.kill(os.getpid(), signal.SIGINT)
        begun = time.monotonic()
        while not said and time.monotonic() - begun < PATIENCE:
            time.sleep(0.01)
        assert "finishing the round" in said[0]
        assert stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
    before, seen = signal.getsignal(signal.SIGINT), []

    def run() -> None:
        with runner.Stop(print).listening():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before]


def started(words: list[str | Path]) -> subprocess.Popen[str]:
    """A run in a group of processes of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "repfl", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        cwd=ROOT,
        start_new_session=True,
    )


@pytest.mark.parametrize("to_group", [False, True])
def test_a_signal_ends_a_run_cleanly(tmp_path: Path, *, to_group: bool) -> None:
    """Also one that all processes get, as from Ctrl-C, Slurm and `timeout`."""
    grid = slow_grid(tmp_path, rounds=10_000)
    words = command(grid, tmp_path / "r", "--executor", "processes", "--workers", "1")
    process = started(words)
    while not list((tmp_path / "r").glob(".running/*.safetensors")):
        time.sleep(0.05)
        assert process.poll() is None, process.communicate()[0]
    (os.killpg if to_group else os.kill)(process.pid, signal.SIGTERM)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 128 + signal.SIGTERM
    assert "finishing the round" in output
    assert "stopped by a signal" in output
    assert "Traceback" not in output
    assert not list((tmp_path / "r").glob(".running/*.lock"))
    digests(tmp_path / "r")
    assert list((tmp_path / "r").glob(".running/*.safetensors"))


def test_a_signal_to_a_worker_that_is_still_starting_costs_nothing(tmp_path: Path) -> None:
    words = command(slow_grid(tmp_path, rounds=10_000), tmp_path / "r", "--workers", "1")
    process = started(words)
    assert process.stdout is not None
    assert any("on 1 worker" in line for line in process.stdout)
    time.sleep(0.5)  # the worker imports, which takes it seconds
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate(timeout=PATIENCE)[0]
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in output
    assert "failed" not in output


def run_into(file: Path, *arguments: str | Path) -> None:
    """Run the command with its output in a file."""
    with file.open("w") as out, redirect_stdout(out):
        sys.exit(call([str(argument) for argument in arguments]))


def test_two_runners_share_the_cells(tmp_path: Path) -> None:
    asked = command(slow_grid(tmp_path), tmp_path / "r", "--executor", "inline")
    outputs, fork = [tmp_path / "one", tmp_path / "two"], multiprocessing.get_context("fork")
    runners = [fork.Process(target=run_into, args=(file, *asked)) for file in outputs]
    for each in runners:
        each.start()
    for each in runners:
        each.join(PATIENCE)
    said = [file.read_text() for file in outputs]
    assert [each.exitcode for each in runners] == [0, 0], said
    computed = [int(n) for text in said for n in re.findall(r"(\d+) computed", text)]
    assert sum(computed) == CELLS
    assert len(digests(tmp_path / "r")) == CELLS
    assert nothing_left(tmp_path / "r")


def test_surroundings_change_no_bit(here: Here, tmp_path: Path) -> None:
    """Of methods that solve systems, decompose matrices and sort ties."""
    methods = ("fedpurin", "fedpac", "floco", "pfedfda")
    rows = ", ".join(f'{{ label = "{name}", method = "{name}" }}' for name in methods)
    grid = tmp_path / "tests.toml"
    grid.write_text(
        re.sub(
            r"rows = .*\nrecipes = .*three.*", f'rows = [{rows}]\nrecipes = ["three"]', GRID
        ).replace('model = "tiny"', 'model = "tiny-bn"')
    )
    asked = ("run", "--grid", grid, "--artefact", "tests/table1", "--seed", "0")
    asked += ("--executor", "inline")
    assert here(*asked, "--results", tmp_path / "one").code == 0
    (tmp_path / "elsewhere").mkdir()
    other = {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "3", "OPENBLAS_NUM_THREADS": "4"}
    other |= {"TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "77"}
    done = repfl(*asked, "--results", "other", cwd=tmp_path / "elsewhere", umask=0o002, **other)
    assert done.returncode == 0, done.stderr
    found = digests(tmp_path / "one")
    assert found == digests(tmp_path / "elsewhere" / "other")
    assert len(found) == len(methods)
