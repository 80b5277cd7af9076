"""One runner per cell: a living one is never robbed, a dead one holds nothing up."""

from __future__ import annotations

import multiprocessing
import os
import signal
from typing import Any

from bench.records.locks import claim, held
from bench.records.store import Store

CELL = "a" * 64


def hold(root: str, pipe: Any) -> None:
    """Hold a claim until killed, or until told to let go."""
    with claim(Store(root), CELL) as mine:
        pipe.send(mine)
        pipe.recv()


def holder(store: Store) -> tuple[Any, Any]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(str(store.root), there))
    process.start()
    assert here.recv() is True
    return process, here


def test_a_living_runner_keeps_its_cell_and_a_killed_one_loses_it_at_once(store: Store) -> None:
    process, _ = holder(store)
    assert held(store, CELL)
    with claim(store, CELL) as mine:
        assert not mine
    os.kill(process.pid, signal.SIGSTOP)  # stopped is not dead
    with claim(store, CELL) as mine:
        assert not mine
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not held(store, CELL)
    with claim(store, CELL) as mine:
        assert mine


def test_no_lock_file_stays(store: Store) -> None:
    with claim(store, CELL) as mine:
        assert mine
        assert [path.name for path in store.running.iterdir()] == [f"{CELL}.lock"]
    assert list(store.running.iterdir()) == []


def test_the_next_runner_gets_the_lock_on_a_file_that_has_a_name(store: Store) -> None:
    process, pipe = holder(store)
    pipe.send(None)
    process.join()
    with claim(store, CELL) as first:
        assert first
        with claim(store, CELL) as second:
            assert not second
