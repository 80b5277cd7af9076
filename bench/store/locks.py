"""Locks: one runner per cell, and cleaning up after killed runners.

The lock is the operating system's own (`flock` through filelock), not a file with a heartbeat: the
kernel releases it the moment its process dies, whatever killed it, and never before. On network
file systems with locks (NFS 4, Lustre, CephFS, GPFS) the server releases those of a lost client
after its lease, by default 90 seconds. File systems without locks report so in several ways; there,
filelock's marker files are used: the process that creates the file has the lock, and is named in
it. A marker whose process died on this machine is taken over. That of a lost machine stays, and is
reported with file and host, until a user deletes it.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock, Timeout

from repfl.bench.errors import StoreError
from repfl.bench.store import checkpoint
from repfl.bench.store.record import FINAL
from repfl.bench.store.store import ID_LENGTH, Store, stored_result, writing
from repfl.datasets.core.cache import NO_LOCKS


def path_of(store: Store, cell: str) -> Path:
    return store.running / f"{cell}.lock"


@contextmanager
def claim(store: Store, cell: str) -> Iterator[bool]:
    """Try to lock a cell; yield False if another runner has it. The lock file is removed at the
    end.
    """
    path = path_of(store, cell)
    with writing(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _lock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
    try:
        yield True
    finally:
        # Removed before it is released: whoever opened the file meanwhile finds, once it has the
        # lock, that the file has no name any more. A marker file is removed by its release.
        if not isinstance(lock, SoftFileLock):
            with suppress(OSError):
                path.unlink()
        lock.release()


def is_locked(store: Store, cell: str) -> bool:
    """Return whether a runner computes this cell now."""
    path = path_of(store, cell)
    if not path.exists():
        return False
    try:
        with _lock(path).acquire(timeout=0):
            return False
    except (Timeout, OSError):
        return True


def holder(store: Store, cell: str) -> str:
    """Return a message if a cell's marker file is of another machine's process, else ""."""
    path = path_of(store, cell)
    try:
        process, host, *_ = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except (OSError, ValueError):
        return ""
    if host.partition("?")[0] == os.uname().nodename:  # filelock adds the namespace of a container
        return ""
    return (
        f"{path} says that process {process} on {host} is at it; delete the file if that machine is"
        " gone"
    )


def _lock(path: Path) -> BaseFileLock:
    """Return a lock on a file, not yet acquired."""
    try:
        # left by a machine on which this file system has no locks: a real lock file is empty
        marked = path.stat().st_size > 0
    except OSError:
        marked = False
    return FileLock(path) if _has_locks(path.parent) and not marked else SoftFileLock(path)


@lru_cache(maxsize=64)
def _has_locks(folder: Path) -> bool:
    """Return whether the file system under a folder has locks."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in NO_LOCKS
    return True


def sweep(store: Store) -> None:
    """Remove what killed runners left: locks, parts of records, checkpoints of finished cells.
    Files of live runners and checkpoints of unfinished cells stay.
    """
    # a folder that cannot be written, or is gone by now, keeps what it has
    with suppress(OSError, StoreError):
        prefixes = {path.name.partition(".")[0] for path in store.running.iterdir()}
        for cell in sorted(name for name in prefixes if len(name) == ID_LENGTH):
            with claim(store, cell) as acquired:
                if not acquired:
                    continue
                store.recover(cell)
                record = stored_result(store, cell)
                if record is not None and record.status in FINAL:
                    checkpoint.drop(store, cell)
        for probe in store.running.glob("probe-*"):
            probe.unlink(missing_ok=True)
