"""Provenance: commit, libraries, machine and data behind a number."""

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
from repfl.bench.store.contents import other_data

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
            head, status = _git("rev-parse", "HEAD"), _git("status", "--porcelain", "-unormal")
            return {"commit": head, "dirty": bool(status)}
    return {"commit": None, "dirty": None}


def refuse_installed_copy(path: Path) -> None:
    """Refuse a path inside an installed copy, which the next installation overwrites."""
    if path.is_relative_to(ROOT) and not (ROOT / "pyproject.toml").exists():
        raise UserError(
            f"{path}: is part of an installed copy, where nothing lasts; work in a clone, after"
            " `pip install -e .`"
        )


def author() -> str:
    """Return the user name of git; empty if there is none."""
    with suppress(OSError, subprocess.SubprocessError):
        return _git("config", "user.name")
    return ""


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return process.stdout.strip()


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Return the versions of everything that can change a number."""
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
    """Return the processor types that the linear algebra of NumPy and SciPy detects, which do not
    follow from instruction sets alone.
    """
    from threadpoolctl import threadpool_info

    for name in ("numpy", "scipy.linalg"):
        import_module(name)  # a library shows itself once it is loaded
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    names = [(each["internal_api"], each.get("architecture") or each["version"]) for each in loaded]
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
    """Return facts on this machine."""
    return {
        "host": socket.gethostname(),
        "processors": os.cpu_count(),
        "system": platform.platform(),
    }


# -- data ------------------------------------------------------------------------------------------


def data_here(dataset: str) -> dict[str, str]:
    """Return the fingerprint of every split; empty if the data set is not here."""
    from repfl.datasets.core.errors import DataError

    try:
        return _fingerprints(dataset)
    except DataError:
        return {}


def _fingerprints(dataset: str) -> dict[str, str]:
    from repfl.datasets.core.cache import open_dataset

    fingerprints = open_dataset(dataset).fingerprints
    return {f"{dataset}/{split}": fingerprint for split, fingerprint in fingerprints.items()}


def data_moved(recorded: Mapping[str, str]) -> Iterator[str]:
    """Yield the splits whose fingerprints differ from those here, of data sets that are here; and
    why arrays of the user's own cannot be read today.
    """
    from repfl.bench.grid import plugins
    from repfl.datasets.core import registry
    from repfl.datasets.core.errors import DataError

    for dataset in dict.fromkeys(name.partition("/")[0] for name in recorded):
        try:
            here = _fingerprints(dataset)
        except DataError as error:
            here = {}
            described = registry.get(dataset)
            own = described.embedded or described.source is not None
            if plugins.origin("dataset", dataset) and own:
                yield f"today's cannot be read: {error}"
        then = {name: mark for name, mark in recorded.items() if name.partition("/")[0] == dataset}
        for name in other_data(then, here) if here else ():
            shown = ((side.get(name) or "none")[:12] for side in (then, here))
            yield "{} had fingerprint {}, and here has {}".format(name, *shown)
