"""Where a number comes from: commit, libraries, machine."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from repfl.bench.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("torch", "numpy", "scipy", "safetensors", "pydantic", "pandas", "pyarrow")
FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "asimd", "sve")

KERNEL_VARIABLES = (
    "ATEN_CPU_CAPABILITY",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "OPENBLAS_CORETYPE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLASLT_WORKSPACE_SIZE",
)
"""Environment variables that make numeric libraries use other kernels, hence other bits."""


HALF = "bf16"
"""The precision whose numbers are kept apart: forward passes in bfloat16."""


def half(made: Mapping[str, Any]) -> bool:
    """Whether a record's numbers are of half precision, and so not to be mixed with others."""
    return made.get("precision") == HALF


def computes_half() -> bool:
    """Whether this processor has instructions for bfloat16."""
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(processor()["flags"])


@lru_cache(maxsize=1)
def commit() -> dict[str, Any]:
    """The commit of this clone, and whether anything differs from it; unknown outside a clone, and
    where the repository around an installed copy is somebody's own.
    """
    try:
        if not _git("rev-parse", "--show-prefix"):  # the top folder, not one below it
            head = _git("rev-parse", "HEAD")
            return {
                "commit": head,
                "dirty": bool(_git("status", "--porcelain", "--untracked-files=normal")),
            }
    except (OSError, subprocess.SubprocessError):
        pass
    return {"commit": None, "dirty": None}


def must_last(path: Path) -> None:
    """Refuse to write beside the code of an installed copy: its next installation would lose it."""
    if path.is_relative_to(ROOT) and not (ROOT / "pyproject.toml").exists():
        raise UserError(
            f"{path}: is part of an installed copy, where nothing lasts; work in a clone, after"
            " `pip install -e .`"
        )


def author() -> str:
    """The name that git would write into a commit; empty where it knows none."""
    try:
        return _git("config", "user.name")
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(*arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True, timeout=20
    )
    return done.stdout.strip()


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Versions of everything that may move a number."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


@lru_cache(maxsize=1)
def processor() -> dict[str, Any]:
    """The processor's name and the instruction sets that numeric libraries choose their kernels
    by.
    """
    name, flags = platform.processor() or platform.machine(), []
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            elif key.strip() in ("flags", "Features"):
                flags = [flag for flag in FLAGS if flag in value.split()]
                break
    except OSError:
        pass
    return {"name": name, "flags": flags}


def _kernels() -> list[str]:
    """What numeric libraries choose their CPU kernels by: instruction sets, and variables that
    overrule them.
    """
    import torch

    return [*processor()["flags"], torch.backends.cpu.get_cpu_capability(), *blas(), *_overruled()]


def _overruled() -> list[str]:
    """What the user's environment says about kernels."""
    return [f"{name}={os.environ[name]}" for name in KERNEL_VARIABLES if os.environ.get(name)]


@lru_cache(maxsize=1)
def blas() -> list[str]:
    """The processors that the linear algebra of NumPy and SciPy takes this one for; equal
    instruction sets do not settle that.
    """
    from threadpoolctl import threadpool_info

    for name in ("numpy", "scipy.linalg"):
        import_module(name)  # a library shows itself once it is loaded
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return sorted(
        {
            f"{library['internal_api']}-{library.get('architecture') or library['version']}"
            for library in found
        }
    )


def device_name(device: str) -> str:
    """What computes, in words."""
    import torch

    if device.startswith("cuda"):  # a runner may write of a cell that died on another machine
        return (
            torch.cuda.get_device_name()
            if torch.cuda.is_available()
            else "a GPU of another machine"
        )
    return str(processor()["name"])


def platform_of(device: str, precision: str) -> dict[str, Any]:
    """Everything that two computations must share to agree bit for bit; its hash is the platform
    fingerprint.
    """
    import torch

    kind = "cuda" if device.startswith("cuda") else "cpu"
    parts = {
        "system": f"{platform.system()}-{platform.machine()}",
        "device": device_name(device),
        "flags": (
            _kernels()
            if kind == "cpu"
            else [
                str(torch.version.cuda),
                str(torch.backends.cudnn.version()),
                *blas(),
                *_overruled(),
            ]
        ),
        "torch": str(torch.__version__),
        "numpy": libraries()["numpy"],
        "scipy": libraries()["scipy"],
        "precision": precision,
    }
    text = repr(sorted(parts.items()))
    return {**parts, "fingerprint": sha256(text.encode()).hexdigest()[:16]}


def machine() -> dict[str, Any]:
    """Where this ran."""
    return {
        "host": socket.gethostname(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
    }


# -- data ------------------------------------------------------------------------------------------


class Moved(NamedTuple):
    """A split that is not what a number was computed from."""

    split: str
    made: str | None
    here: str | None

    def __str__(self) -> str:
        return f"{self.split} had fingerprint {_short(self.made)}, and here has {_short(self.here)}"


def _short(mark: str | None) -> str:
    return mark[:12] if mark else "none"


def data_here(dataset: str) -> dict[str, str]:
    """The fingerprint of every split, as provenance tells it; nothing where there are no data."""
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.errors import DataError

    try:
        known = open_dataset(dataset).fingerprints
    except DataError:
        return {}
    return {f"{dataset}/{split}": mark for split, mark in known.items()}


def data_moved(made: Mapping[str, str]) -> Iterator[Moved]:
    """The splits, of the data sets that provenance names and that are here, that differ."""
    for dataset in dict.fromkeys(name.partition("/")[0] for name in made):
        here = data_here(dataset)
        then = {name: mark for name, mark in made.items() if name.partition("/")[0] == dataset}
        for name in sorted(here.keys() | then) if here else ():
            if here.get(name) != then.get(name):
                yield Moved(name, then.get(name), here.get(name))
