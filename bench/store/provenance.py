"""Where a number comes from: commit, libraries, machine, data."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

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


@lru_cache(maxsize=1)
def commit() -> dict[str, Any]:
    """Return the commit of this clone, and whether anything differs from it; both None outside a
    clone, as in an installed copy inside somebody's own repository.
    """
    with suppress(OSError, subprocess.SubprocessError):
        if not _git("rev-parse", "--show-prefix"):  # the top folder, not one below it
            head, changes = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-unormal")
            return {"commit": head, "dirty": bool(changes)}
    return {"commit": None, "dirty": None}


def must_last(path: Path) -> None:
    """Refuse to write beside the code of an installed copy: the next installation would lose it."""
    if path.is_relative_to(ROOT) and not (ROOT / "pyproject.toml").exists():
        raise UserError(
            f"{path}: is part of an installed copy, where nothing lasts; work in a clone, after"
            " `pip install -e .`"
        )


def author() -> str:
    """Return the name that git would write into a commit, or nothing."""
    with suppress(OSError, subprocess.SubprocessError):
        return _git("config", "user.name")
    return ""


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stdout.strip()


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Return the versions of everything that may move a number."""
    versions = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "absent"
    return versions


@lru_cache(maxsize=1)
def processor() -> dict[str, Any]:
    """Return the processor's name, and the instruction sets by which numeric libraries choose their
    kernels.
    """
    facts: dict[str, str] = {}
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name") or platform.processor() or platform.machine()
    present = (facts.get("flags") or facts.get("Features") or "").split()
    return {"name": name, "flags": [flag for flag in FLAGS if flag in present]}


@lru_cache(maxsize=1)
def blas() -> list[str]:
    """Return the processors that the linear algebra of NumPy and SciPy takes this one for; equal
    instruction sets do not settle that.
    """
    from threadpoolctl import threadpool_info

    for name in ("numpy", "scipy.linalg"):
        import_module(name)  # a library shows itself once it is loaded
    found = [library for library in threadpool_info() if library["user_api"] == "blas"]
    names = [(each["internal_api"], each.get("architecture") or each["version"]) for each in found]
    return sorted({f"{api}-{kind}" for api, kind in names})


def platform_of(device: str, precision: str) -> dict[str, Any]:
    """Return everything that two computations must share to agree bit for bit; its hash is the
    platform's fingerprint.
    """
    import torch

    if device.startswith("cuda"):
        present = torch.cuda.is_available()
        # a runner may write of a cell that died on another machine
        name = torch.cuda.get_device_name() if present else "a GPU of another machine"
        kernels = [str(torch.version.cuda), str(torch.backends.cudnn.version())]
    else:
        name = str(processor()["name"])
        kernels = [*processor()["flags"], torch.backends.cpu.get_cpu_capability()]
    variables = [f"{name}={os.environ[name]}" for name in KERNEL_VARIABLES if os.environ.get(name)]
    parts = {
        "system": f"{platform.system()}-{platform.machine()}",
        "device": name,
        "flags": [*kernels, *blas(), *variables],
        "torch": str(torch.__version__),
        "numpy": libraries()["numpy"],
        "scipy": libraries()["scipy"],
        "precision": precision,
    }
    text = repr(sorted(parts.items()))
    return {**parts, "fingerprint": sha256(text.encode()).hexdigest()[:16]}


def machine() -> dict[str, Any]:
    """Return where this runs."""
    return {
        "host": socket.gethostname(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
    }


# -- data ------------------------------------------------------------------------------------------


def data_here(dataset: str) -> dict[str, str]:
    """Return the fingerprint of every split; nothing if the data are not here."""
    from repfl.datasets.core.cache import open_dataset
    from repfl.datasets.core.errors import DataError

    try:
        known = open_dataset(dataset).fingerprints
    except DataError:
        return {}
    return {f"{dataset}/{split}": mark for split, mark in known.items()}


def data_moved(made: Mapping[str, str]) -> Iterator[str]:
    """Say which splits differ from those here, of data sets that are here."""
    for dataset in dict.fromkeys(name.partition("/")[0] for name in made):
        here = data_here(dataset)
        then = {name: mark for name, mark in made.items() if name.partition("/")[0] == dataset}
        for name in sorted(here.keys() | then) if here else ():
            if here.get(name) != then.get(name):
                marks = ((side.get(name) or "none")[:12] for side in (then, here))
                yield "{} had fingerprint {}, and here has {}".format(name, *marks)
