"""`repfl doctor`: what would keep cells from running, or from running well."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from repfl.bench.cli.options import AsJson, Results
from repfl.bench.cli.printing import print_json
from repfl.bench.errors import FINDING, FINE
from repfl.datasets.core.paths import real_path

LOW_DISK = LOW_MEMORY = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    level: str
    """ok; note: worth knowing; bad: in the way."""
    what: str
    advice: str = ""


def doctor(results: Results = None, as_json: AsJson = False) -> int:
    """Say what is wrong with this environment."""
    checks = (_versions(), _device(), _threads(), _disk(results), _memory(), _data(), _clone())
    findings = [finding for check in checks for finding in check]
    if as_json:
        print_json([asdict(finding) for finding in findings])
    for each in () if as_json else findings:
        print(f"{each.level:5} {each.what}{': ' + each.advice if each.advice else ''}")
    return FINDING if any(finding.level == "bad" for finding in findings) else FINE


def _versions() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    from repfl.bench.store.provenance import libraries

    versions = libraries()
    for name in ("python", "torch", "numpy"):
        yield Finding("ok", f"{name} {versions[name]}")
    try:
        yield Finding("ok", f"repfl {version('repfl')} is installed")
    except PackageNotFoundError:
        advice = "`python -m repfl` in this folder does the same as `repfl`"
        yield Finding("note", "repfl is not installed", advice)


def _device() -> Iterator[Finding]:
    import torch

    from repfl.bench.store.provenance import processor

    fine = "fine for smoke and desk scale; "
    if torch.cuda.is_available():
        free, total = (size >> 30 for size in torch.cuda.mem_get_info())
        name = torch.cuda.get_device_name()
        what = f"GPU {name}, {free} of {total} GiB free, CUDA {torch.version.cuda}"
        yield Finding("ok", what)
    elif torch.version.cuda is None:
        what = "no GPU: this PyTorch is built without CUDA"
        yield Finding("note", what, f"{fine}paper scale needs a GPU")
    else:
        advice = f"{fine}for paper scale see that the NVIDIA driver is loaded"
        yield Finding("note", "no GPU that PyTorch can use", advice)
    yield Finding("ok", f"processor {processor()['name']}, {' '.join(processor()['flags'])}")


def _threads() -> Iterator[Finding]:
    from repfl.bench.run.machine import processors
    from repfl.bench.store.provenance import KERNEL_VARIABLES

    usable, present = processors(), os.cpu_count() or 1
    what = f"{usable} of {present} processors usable: `repfl run` starts {usable} workers"
    yield Finding("ok" if usable == present else "note", f"{what} of one thread each")
    advice = dict.fromkeys(
        KERNEL_VARIABLES,
        "chooses other numeric kernels: digests will differ from those of other runs",
    )
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(name) != "1":
            advice[name] = "repfl sets one thread per worker itself; results do not depend on this"
    for name in advice.keys() & os.environ.keys():
        yield Finding("note", f"{name}={os.environ[name]}", advice[name])


def _disk(results: Path | None) -> Iterator[Finding]:
    from repfl.bench.store.store import Store
    from repfl.datasets.core.cache import data_root

    for name, folder in (("results folder", Store(results).root), ("data root", data_root())):
        target = real_path(folder)
        existing = next(path for path in (target, *target.parents) if path.exists())
        free = shutil.disk_usage(existing).free
        if not os.access(existing, os.W_OK):
            level = "bad" if name == "results folder" else "note"
            yield Finding(level, f"{name} {folder} cannot be written", "choose another folder")
        elif free < LOW_DISK:
            yield Finding("bad", f"{name} {folder}: only {free >> 20} MiB free", "free some space")
        else:
            yield Finding("ok", f"{name} {folder}: {free >> 30} GiB free")


def _memory() -> Iterator[Finding]:
    from repfl.bench.run.machine import memory_bytes

    free, _ = memory_bytes("cpu")
    low = free < LOW_MEMORY
    advice = "use fewer --workers if cells die" if low else ""
    yield Finding("note" if low else "ok", f"{free / (1 << 30):.1f} GiB of memory free", advice)


def _data() -> Iterator[Finding]:
    from repfl.bench.grid.catalog import data_absent
    from repfl.datasets.core import registry

    absent = {name: why for name in registry.names() if (why := data_absent(name))}
    here = [name for name in registry.names() if name not in absent]
    level = "bad" if "digits" in absent else "ok"
    yield Finding(level, f"data here: {', '.join(here) or 'none'}", absent.get("digits", ""))
    if absent:
        advice = "smoke scale needs none of it; otherwise `repfl data get NAME`"
        yield Finding("note", f"data absent: {', '.join(absent)}", advice)


def _clone() -> Iterator[Finding]:
    from repfl.bench.store.provenance import commit

    head = commit()
    if head["commit"] is None:
        advice = "records will not name the commit they were made by"
        yield Finding("note", "not a git clone, or git is not installed", advice)
        return
    changes = " with uncommitted changes" if head["dirty"] else ""
    yield Finding("note" if head["dirty"] else "ok", f"commit {head['commit'][:12]}{changes}")
