"""This machine: its devices and memory, and settings of processes that compute cells."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path

from repfl.bench.errors import UserError
from repfl.bench.run.task import Options
from repfl.bench.store import provenance

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Environment of a process that computes cells, set before it imports its libraries."""
MALLOC = ((-3, (64 << 20, 32 << 20)), (-1, (1 << 30,)), (-2, (64 << 20,)))
"""Parameters of glibc's `mallopt` (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD) with values; the
first accepted value is used, since older releases allow no threshold over 32 MiB.
"""


# -- devices ---------------------------------------------------------------------------------------


def processors() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def gpus() -> int:
    """Return how many GPUs this process may use."""
    # without a driver there is no need to import PyTorch, which takes a second
    if "torch" not in sys.modules and not _driver():
        return 0
    import torch

    return int(torch.cuda.device_count()) if torch.cuda.is_available() else 0


def _driver() -> bool:
    """Return whether there is a driver for CUDA, or AMD's."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Path("/dev/kfd").exists()
    return True


def device_names(device: str) -> list[str]:
    """Return the names of all devices of a kind."""
    if device != "cuda":
        return [device]
    if not (count := gpus()):
        raise UserError(
            "--device cuda: PyTorch sees no GPU here; use --device cpu, or find out why with"
            " `python -m torch.utils.collect_env`"
        )
    return [f"cuda:{index}" for index in range(count)]


def same_kind(device: str) -> str:
    """Return a device of this machine of the kind that a record names."""
    return device_names("cuda" if device.startswith("cuda") else device)[0]


def resolve(device: str) -> str:
    """Return the kind of device to use: `auto` is the GPU if there is one."""
    if device not in ("auto", "cpu", "cuda"):
        raise UserError(f"device {device!r} is not valid; valid: auto, cpu, cuda")
    if device == "cpu" or (device == "auto" and not gpus()):
        return "cpu"
    device_names("cuda")
    return "cuda"


# -- memory ----------------------------------------------------------------------------------------


def memory_bytes(device: str) -> tuple[int, int]:
    """Return the free and the total bytes of memory: of a GPU, or of this machine within the limit
    of its control group.
    """
    if device.startswith("cuda"):
        import torch

        return torch.cuda.mem_get_info(same_kind(device))
    free, total = _meminfo()
    for folder in _control_groups():
        for limit, used in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            with suppress(OSError, ValueError):  # no such file, or the word "max"
                most = int((folder / limit).read_text())
                total = min(total, most)
                free = min(free, most - int((folder / used).read_text()) + _reclaimable(folder))
    return free, total


def _control_groups() -> Iterator[Path]:
    """Yield the folders of this process's control groups that may limit its memory."""
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, kind, path = line.split(":", 2)
            if kind in ("", "memory"):
                group = Path("/sys/fs/cgroup", kind, path.removeprefix("/"))
                yield from (group, *group.parents)


def _reclaimable(folder: Path) -> int:
    """Return the bytes of cached files that the kernel frees when a group needs them."""
    words = (folder / "memory.stat").read_text().split()
    counts = dict(zip(words[::2], words[1::2], strict=True))
    return int(counts.get("total_inactive_file") or counts.get("inactive_file") or 0)


def _meminfo() -> tuple[int, int]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        values = {
            key: int(rest.split()[0]) << 10 for key, _, rest in (s.partition(":") for s in lines)
        }
        return values["MemAvailable"], values["MemTotal"]
    except OSError:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return total, total


def clear(device: str) -> None:
    """Release memory of earlier cells, and reset the peak if the system supports it."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    if device.startswith("cuda"):
        import torch

        torch.cuda.init()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def peak(device: str) -> int:
    """Return the peak memory of this process in bytes, on the GPU if it computed there."""
    if device.startswith("cuda"):
        import torch

        return int(torch.cuda.max_memory_allocated())
    with suppress(OSError):  # Linux's other counter begins with the parent's peak
        status = Path("/proc/self/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) << 10
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


# -- the process -----------------------------------------------------------------------------------


def prepare_process(options: Options) -> None:
    """Set what must be equal in all processes that compute cells: one thread, deterministic
    kernels, an allocator that keeps freed memory.
    """
    keep_freed_memory()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    from threadpoolctl import threadpool_limits

    from repfl.bench.grid import plugins

    torch.set_num_threads(1)
    provenance.blas()  # loads what is to be limited
    threadpool_limits(1)
    if options.device.startswith("cuda"):
        torch.cuda.set_device(options.device)
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
    plugins.load(plugins.files(options.plugins))
    for module in ("algorithms.core.run", "bench.run.clients", "datasets.core.partition"):
        import_module(f"repfl.{module}")  # now, so that it does not count as a cell's time
    # every cell begins with a search for garbage, which needs not look at what is imported
    gc.freeze()


def keep_freed_memory() -> bool:
    """Make glibc's allocator keep freed blocks for the next training step; return whether it does.

    A step frees and allocates the same tensors over and over. By default glibc maps larger ones
    each time, and the system zeroes thousands of pages a step.
    """
    if not sys.platform.startswith("linux"):
        return False
    with suppress(OSError, AttributeError):  # another C library has no such function
        mallopt = ctypes.CDLL(None).mallopt
        accepted = [any(mallopt(name, value) == 1 for value in values) for name, values in MALLOC]
        return all(accepted)
    return False


@contextmanager
def settings_restored() -> Iterator[None]:
    """Context manager: restore the number of threads, the choice of kernels and the garbage
    collector.
    """
    import torch
    from threadpoolctl import threadpool_limits

    provenance.blas()  # loads what has threads
    threads, cudnn = torch.get_num_threads(), torch.backends.cudnn
    benchmark, deterministic = cudnn.benchmark, cudnn.deterministic
    frozen_objects = gc.get_freeze_count()
    try:
        with threadpool_limits(None):
            yield
    finally:
        torch.set_num_threads(threads)
        cudnn.benchmark, cudnn.deterministic = benchmark, deterministic
        if not frozen_objects:
            gc.unfreeze()
