"""A process's memory: what is freed is kept for the next step, and what a cell held at most is its
own.

A training step frees and asks for the same tensors over and over. By itself glibc maps every larger
one afresh, and the system hands out thousands of zeroed pages a step; what that costs
`bench/SPEED.md` tells. Blocks as large as a federation's models still come and go as they did.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from pathlib import Path

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""The numbers of `mallopt`'s parameters in glibc's malloc.h."""
SETTINGS = {MMAP_THRESHOLD: (64 << 20, 32 << 20), TRIM_THRESHOLD: (1 << 30,), TOP_PAD: (64 << 20,)}
"""In bytes, the first of each that it takes: older releases of glibc allow no larger threshold for
mapped blocks than the second. The models of ten clients with cnn4 lie between the two.
"""


def keep_freed_memory() -> bool:
    """Tell this process's allocator, where it is glibc's; whether it obeys."""
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):  # another C library has no such call
        tell = ctypes.CDLL(None).mallopt
        obeyed = [
            any(tell(name, value) == 1 for value in values) for name, values in SETTINGS.items()
        ]
        return all(obeyed)
    return False


def forget_peak() -> None:
    """Give back what earlier cells left, and begin to measure this process's peak anew, where the
    system can.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Bytes that this process held at most. Linux's other counter begins with the parent's."""
    with suppress(OSError):
        told = Path("/proc/self/status").read_text()
        return 1024 * int(told.partition("VmHWM:")[2].split()[0])
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
