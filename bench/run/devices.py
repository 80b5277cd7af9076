"""The devices of a machine: which there are, how a worker sees its own, and what a user may say
about sharing them.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from repfl.bench.errors import UserError


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


def clear(device: str) -> None:
    """Give a GPU's memory back, and count its peak from here on."""
    if not device.startswith("cuda"):
        return
    import gc

    import torch

    torch.cuda.init()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)


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


def share(per_gpu: int | None, workers: int | None, device: str) -> int:
    """Return how many cells share a GPU: as the user says, or as the number of processes needs."""
    if per_gpu is not None and per_gpu < 1:
        raise UserError(f"--per-gpu {per_gpu} is not valid; valid: a whole number >= 1")
    if per_gpu is not None:
        return per_gpu
    return -(-workers // max(gpus(), 1)) if workers and device == "cuda" else 1


def processes(device: str, per_gpu: int) -> int:
    """Return how many processes keep the devices busy."""
    return processors() if device == "cpu" else gpus() * per_gpu
