"""A machine's devices and memory, and what a process that computes cells does with freed memory."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from repfl.bench.errors import UserError
from repfl.bench.run import machine
from repfl.bench.store.store import Store
from tests.bench.conftest import Compute, python, stored, task

GLIBC = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")


def test_devices_have_explicit_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "gpus", lambda: 3)
    assert machine.device_names("cuda") == ["cuda:0", "cuda:1", "cuda:2"]
    assert machine.device_names("cpu") == ["cpu"]
    assert machine.resolve("auto") == "cuda"
    assert [machine.same_kind(n) for n in ("cuda:7", "cuda", "cpu")] == ["cuda:0", "cuda:0", "cpu"]
    monkeypatch.setattr(machine, "gpus", lambda: 0)
    assert machine.resolve("auto") == "cpu"
    with pytest.raises(UserError, match="no GPU"):
        machine.resolve("cuda")


FAULTS = """
import resource, sys
import numpy as np
from repfl.bench.run.machine import keep_freed_memory

kept = keep_freed_memory() if sys.argv[1] == "kept" else None
step = lambda: [np.ones(1 << 20) for _ in range(4)]  # 8 MiB each, freed at once
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    step()
print(kept, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@GLIBC
def test_freed_memory_is_used_again_without_asking_the_system() -> None:
    accepted, few = python(FAULTS, "kept").split()
    assert accepted == "True"
    # huge pages make faults rare, but not as rare as none
    assert 4 * int(few) < int(python(FAULTS, "not").split()[1])


def test_memory_of_a_group_leaves_out_cached_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"memory.max": "1000", "memory.current": "900", "memory.stat": "inactive_file 300\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(machine, "_control_groups", lambda: [tmp_path, tmp_path / "none"])
    assert machine.memory_bytes("cpu") == (400, 1000)


@GLIBC
def test_a_record_is_not_charged_with_what_was_held_before(store: Store, compute: Compute) -> None:
    compute(task())  # imports what it needs, which would be charged to the record below
    machine.keep_freed_memory()
    held = [np.ones(1 << 20) for _ in range(50)]  # 8 MiB each
    high = machine.peak("cpu")
    del held
    compute(task(), fresh=True)
    assert stored(store, task().cell.id).origin.peak_memory < high - (300 << 20)


def test_a_process_is_not_charged_with_what_its_parent_held() -> None:
    asked = "from repfl.bench.run import machine; print(machine.peak('cpu'))"
    alone = int(python(asked))
    held = bytearray(400 << 20)
    held[:: 1 << 12] = b"1" * len(held[:: 1 << 12])
    assert int(python(asked)) < alone + len(held) // 2
