"""One runner per cell.

The lock is the operating system's own (`flock` through filelock), not a file with a heartbeat: the kernel lets go of it the moment its
process dies, whatever killed it, and never before. A heartbeat would have to guess, and a machine that sleeps or a process that is stopped
would lose its cell while alive. On network file systems that support locks (NFS 4, Lustre, CephFS, GPFS) the server frees the locks of a
lost client after its lease, by default 90 seconds: a bounded time. A file system without `flock` falls back to filelock's own marker files.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from filelock import FileLock, Timeout

from bench.records.store import Store, writing


@contextmanager
def claim(store: Store, cell: str) -> Iterator[bool]:
    """Try to become the one who computes a cell; false when another runner has it. The lock file goes when the claim ends."""
    path = store.running / f"{cell}.lock"
    lock = FileLock(path, timeout=0)
    with writing(store.root):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout:
            yield False
            return
    try:
        yield True
    finally:
        # Removed before it is released: whoever opened the file meanwhile finds, once it has the lock, that the file has no name any more.
        with suppress(OSError):
            path.unlink()
        lock.release()


def held(store: Store, cell: str) -> bool:
    """Whether some runner is at this cell right now."""
    path = store.running / f"{cell}.lock"
    if not path.exists():
        return False
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return True
    lock.release()
    return False
