"""The devices of a machine: which there are, how a worker sees its own, and what a user may say
about sharing them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

from repfl.bench.errors import UserError

os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
"""Queues to a GPU, read when CUDA starts: with the usual eight, lanes wait for each other."""
MOST = 8
"""Cells on one GPU at most, where their number is found by measurement."""


@dataclass(frozen=True)
class Reading:
    """What a worker sees of its device."""

    peak: int
    """Bytes that its cell has held at most so far."""
    free: int
    total: int
    shortages: int = 0
    """How often memory has run out in its cell."""


def gpus() -> int:
    """GPUs that this process may use. Without a driver PyTorch, which takes a second to load, need
    not be asked.
    """
    if "torch" not in sys.modules and not _driver():
        return 0
    import torch

    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def _driver() -> bool:
    """Whether a driver is here that PyTorch computes through: CUDA's, or AMD's."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True


def places(device: str) -> list[str]:
    """Every device of the wanted kind, by an explicit name."""
    if device != "cuda":
        return [device]
    if not (count := gpus()):
        raise UserError(
            "--device cuda: PyTorch sees no GPU here; use --device cpu, or `repfl doctor` to find"
            " out why"
        )
    return [f"cuda:{index}" for index in range(count)]


def like(device: str) -> str:
    """A device that is here, of the kind that a record names: its `cuda:3` need not be."""
    return places("cuda" if device.startswith("cuda") else device)[0]


def reading(device: str, since: int = 0) -> Reading | None:
    """The memory of a GPU as the cell that runs here sees it, less the shortages before it;
    processors need no packing.
    """
    if not device.startswith("cuda"):
        return None
    import torch

    free, total = torch.cuda.mem_get_info(device)
    shortages = int(torch.cuda.memory_stats(device).get("num_ooms", 0))
    return Reading(
        int(torch.cuda.max_memory_reserved(device)), int(free), int(total), shortages - since
    )


def clear(device: str) -> int:
    """Give memory back, and count its peak anew; returns the shortages so far."""
    if not device.startswith("cuda"):
        return 0
    import gc

    import torch

    torch.cuda.init()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return int(torch.cuda.memory_stats(device).get("num_ooms", 0))


# -- what the user says ----------------------------------------------------------------------------


def processors() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def resolve(wanted: str) -> str:
    """`auto` is the GPU where there is one."""
    if wanted not in ("auto", "cpu", "cuda"):
        raise UserError(f"--device {wanted!r} is not valid; valid: auto, cpu, cuda")
    if wanted == "cpu" or (wanted == "auto" and not gpus()):
        return "cpu"
    places("cuda")
    return "cuda"


def share(said: str | None, workers: int | None, device: str) -> int:
    """Cells that share a GPU at most, 0 for as many as pay: as the user said, or as the number of
    processes asks for.
    """
    if said is not None and said != "auto" and not (said.isdecimal() and int(said) > 0):
        raise UserError(f"--per-gpu {said!r} is not valid; valid: auto, or a whole number >= 1")
    if said is not None:
        return 0 if said == "auto" else int(said)
    return -(-workers // max(gpus(), 1)) if workers and device == "cuda" else 0


def processes(device: str, per_gpu: int) -> int:
    """Processes that keep the devices busy: one per processor, or as many on every GPU as may share
    it.
    """
    return (
        processors()
        if device == "cpu"
        else min(gpus() * (per_gpu or MOST), max(processors(), gpus()))
    )
