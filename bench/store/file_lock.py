"""File locks that also hold where the file system has none.

The lock is the operating system's own (`flock` through filelock), of which the kernel lets go when
its process dies. A file system without it says so in several ways: ENOSYS, EOPNOTSUPP, or ENOLCK
where a network file system has no lock service. There, filelock's marker files do: whoever makes
the file has the lock, and what is written in it says who that is. A marker whose process died on
this machine is taken over; that of another machine is not, since nobody here can tell whether it
still runs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from functools import lru_cache
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLock

ABSENT = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}


def file_lock(path: Path) -> BaseFileLock:
    """A lock on a file, not taken yet."""
    return FileLock(path) if _locks(path.parent) and not _marked(path) else SoftFileLock(path)


@lru_cache(maxsize=64)
def _locks(folder: Path) -> bool:
    """Whether the file system under a folder has locks; tried on a file of its own, so that no lock
    file is left behind.
    """
    with tempfile.TemporaryFile(dir=folder) as probe:
        try:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in ABSENT
    return True


def _marked(path: Path) -> bool:
    """Whether somebody whose file system view has no locks has left a marker here: an operating
    system's lock file is empty.
    """
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def elsewhere(path: Path) -> str:
    """Whose marker a lock file is, where that is a process of another machine; empty: nobody's, or
    of this one.
    """
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
