"""A process that computes cells keeps freed memory for its next step."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys
import numpy as np
from repfl.bench.run.memory import keep_freed_memory

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


PEAKS = """
import numpy as np
from repfl.bench.run import memory

memory.keep_freed_memory()
big = [np.ones(1 << 20) for _ in range(30)]  # 8 MiB each
del big
high = memory.peak()
memory.forget_peak()
print(high - memory.peak())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library: left as it is")
def test_a_cell_is_not_charged_with_what_the_one_before_it_held() -> None:
    told = subprocess.run(
        [sys.executable, "-c", PEAKS], capture_output=True, text=True, check=True
    ).stdout
    assert int(told) > 200 << 20


def test_a_process_is_not_charged_with_what_its_parent_held() -> None:
    ask = "from repfl.bench.run import memory; print(memory.peak())"
    held = bytearray(400 << 20)
    held[:: 1 << 12] = b"1" * len(held[:: 1 << 12])
    told = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert int(told.stdout) < len(held)
