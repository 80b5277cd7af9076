"""One runner per cell.

The lock is the operating system's own, not a file with a heartbeat: the kernel lets go of it the
moment its process dies, whatever killed it, and never before. A heartbeat would have to guess, and
a machine that sleeps or a process that is stopped would lose its cell while alive. On network file
systems that support locks (NFS 4, Lustre, CephFS, GPFS) the server frees the locks of a lost client
after its lease, by default 90 seconds: a bounded time. On a file system without locks, marker files
do (`repfl.bench.store.file_lock`): there a cell that a lost machine was at is reported with file
and host, and stays taken until somebody deletes the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from filelock import Timeout

from repfl.bench.store.file_lock import elsewhere, file_lock
from repfl.bench.store.store import Store, writing


@contextmanager
def claim(store: Store, cell: str) -> Iterator[bool]:
    """Try to become the one who computes a cell; false when another runner has it. The lock file
    goes when the claim ends.
    """
    path = store.running / f"{cell}.lock"
    with writing(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = file_lock(path)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
    try:
        yield True
    finally:
        # Removed before it is released: whoever opened the file meanwhile finds, once it has the
        # lock, that the file has no name any more.
        with suppress(OSError):
            path.unlink()
        lock.release()


def held(store: Store, cell: str) -> bool:
    """Whether some runner is at this cell right now."""
    path = store.running / f"{cell}.lock"
    if not path.exists():
        return False
    try:
        with file_lock(path).acquire(timeout=0):
            return False
    except (Timeout, OSError):
        return True


def holder(store: Store, cell: str) -> str:
    """Whose marker file a held cell has, where that is a process of another machine; empty: a
    living runner has it.
    """
    return elsewhere(store.running / f"{cell}.lock")
