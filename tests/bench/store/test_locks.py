"""One runner per cell: a living one is never robbed, a dead one holds nothing up."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import socket
from typing import Any

import pytest
from filelock import FileLock

from repfl.bench.store.locks import claim, is_locked
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, task

CELL = "a" * 64


def hold(root: str, pipe: Any) -> None:
    """Hold a claim until killed, or until told to let go."""
    with claim(Store(root), CELL) as mine:
        pipe.send(mine)
        pipe.recv()


def holder(store: Store) -> tuple[Any, Any]:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=hold, args=(str(store.root), there))
    process.start()
    assert here.recv() is True
    return process, here


def test_a_living_runner_keeps_its_cell_and_a_killed_one_loses_it_at_once(store: Store) -> None:
    process, _ = holder(store)
    assert is_locked(store, CELL)
    with claim(store, CELL) as mine:
        assert not mine
    os.kill(process.pid, signal.SIGSTOP)  # stopped is not dead
    with claim(store, CELL) as mine:
        assert not mine
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not is_locked(store, CELL)
    with claim(store, CELL) as mine:
        assert mine


def test_the_next_runner_gets_the_lock_on_a_file_that_has_a_name(store: Store) -> None:
    process, pipe = holder(store)
    pipe.send(None)
    process.join()
    with claim(store, CELL) as first:
        assert first
        with claim(store, CELL) as second:
            assert not second


def test_a_lock_file_is_removed_while_its_owner_still_has_the_lock(
    monkeypatch: pytest.MonkeyPatch, store: Store
) -> None:
    """Removed later, it might be the file on which the next runner has its lock."""
    there, release = [], FileLock.release

    def watched(self: FileLock, *args: Any, **how: Any) -> None:
        there.append(os.path.exists(self.lock_file))  # noqa: PTH110
        release(self, *args, **how)

    monkeypatch.setattr(FileLock, "release", watched)
    with claim(store, CELL) as mine:
        assert mine
    assert there[:1] == [False]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_locks_of_the_file_system_marker_files_do(
    monkeypatch: pytest.MonkeyPatch, store: Store, number: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, "no locks here")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with claim(store, CELL) as mine:
        assert mine
        assert socket.gethostname() in (store.running / f"{CELL}.lock").read_text()
        assert is_locked(store, CELL)
        with claim(store, CELL) as second:
            assert not second
    assert list(store.running.iterdir()) == []
    assert not is_locked(store, CELL)
    (store.running / f"{CELL}.lock").write_text(
        f"{2**22 + 1}\n{socket.gethostname()}\n"
    )  # no process has such a number
    with claim(store, CELL) as mine:
        assert mine


def test_the_marker_of_another_machine_is_heeded_and_reported(
    store: Store, compute: Compute
) -> None:
    """Also by a machine whose view of the file system has locks."""
    from repfl.bench.evidence.plan_status import Statuses  # other tests' processes start without it

    wanted = task()
    marker = store.running / f"{wanted.cell.id}.lock"
    marker.write_text("4711\nfar-away\n")
    told = f"{marker} says that process 4711 on far-away is at it; delete the file if"
    outcome = compute(wanted)
    assert outcome.status == "busy"
    assert outcome.reason.startswith(told)
    assert Statuses(store).of(wanted.cell.id).reason == outcome.reason
    marker.unlink()
    assert compute(wanted).status == "done"
