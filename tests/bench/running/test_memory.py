"""A process that computes cells keeps freed memory for its next step."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from repfl.bench.running.memory import keep_freed_memory

kept = keep_freed_memory() if sys.argv[1] == "kept" else None
step = lambda: [np.ones(1 << 20) for _ in range(4)]  # 8 MiB each, freed at once
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[str, int]:
    """Whether the allocator obeyed, and the pages that the system handed out afresh."""
    found = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True
    ).stdout.split()
    return found[0], int(found[1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library: left as it is")
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    obeyed, few = faults("kept")
    assert obeyed == "True"
    assert 100 * few < faults("not")[1]
