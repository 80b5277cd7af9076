"""Freed memory is kept for the next step instead of going back to the system.

A training step frees and asks for the same tensors over and over. By itself glibc maps every larger
one afresh, and the system hands out thousands of zeroed pages a step; what that costs
`bench/SPEED.md` tells. Blocks as large as a federation's models still come and go as they did.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
"""The numbers of `mallopt`'s parameters in glibc's malloc.h."""
SETTINGS = {MMAP_THRESHOLD: 32 << 20, TRIM_THRESHOLD: 1 << 30, TOP_PAD: 64 << 20}
"""In bytes. Older releases of glibc take no higher threshold for mapped blocks."""


def keep_freed_memory() -> bool:
    """Tell this process's allocator, where it is glibc's; whether it obeys."""
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):  # another C library has no such call
        tell = ctypes.CDLL(None).mallopt
        obeyed = [tell(name, value) == 1 for name, value in SETTINGS.items()]
        return all(obeyed)
    return False
