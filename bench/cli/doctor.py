"""`repfl doctor`: what would keep cells from running, or from running well."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from repfl.bench.cli.options import AsJson, Results
from repfl.bench.cli.printing import print_json
from repfl.bench.errors import FINDING, FINE
from repfl.datasets.core.paths import real_path

LOW_DISK = 2 << 30
LOW_MEMORY = 2 << 30


@dataclass(frozen=True)
class Finding:
    """One thing looked at: fine, worth knowing, or in the way."""

    level: Literal["ok", "note", "bad"]
    what: str
    advice: str = ""


def doctor(results: Results = None, as_json: AsJson = False) -> int:
    """Say what is wrong with this environment."""
    findings = examine(results)
    if as_json:
        print_json([vars(finding) for finding in findings])
    for each in () if as_json else findings:
        print(f"{each.level:5} {each.what}{': ' + each.advice if each.advice else ''}")
    return FINDING if any(finding.level == "bad" for finding in findings) else FINE


def examine(results: Path | None = None) -> list[Finding]:
    """Look at everything, in order of importance."""
    from repfl.bench.store.store import Store

    checks: tuple[Callable[[], Iterator[Finding]], ...] = (
        _versions,
        _installed,
        _device,
        _threads,
        lambda: _disk(Store(results).root),
        _memory,
        _data,
        _clone,
    )
    return [finding for check in checks for finding in check()]


def _versions() -> Iterator[Finding]:
    from repfl.bench.store import provenance

    found = provenance.libraries()
    level: Literal["ok", "bad"] = "ok" if sys.version_info >= (3, 11) else "bad"
    yield Finding(
        level, f"Python {found['python']}", "" if level == "ok" else "repfl needs 3.11 or newer"
    )
    old = (
        tuple(int(part) for part in found["torch"].split("+")[0].split(".")[:2]) < (2, 11)
        if found["torch"][0].isdigit()
        else True
    )
    yield Finding(
        "bad" if old else "ok",
        f"torch {found['torch']}, numpy {found['numpy']}",
        "repfl needs torch 2.11 or newer" if old else "",
    )


def _installed() -> Iterator[Finding]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        yield Finding("ok", f"repfl {version('repfl')} is installed")
    except PackageNotFoundError:
        advice = "`python -m repfl` in this folder does the same as `repfl`"
        yield Finding("note", "repfl is not installed", advice)


def _device() -> Iterator[Finding]:
    import torch

    from repfl.bench.store import provenance

    if torch.cuda.is_available():
        free, total = torch.cuda.mem_get_info()
        yield Finding(
            "ok",
            f"GPU {torch.cuda.get_device_name()}, {free >> 30} of {total >> 30} GiB free, CUDA"
            f" {torch.version.cuda}",
        )
    elif torch.version.cuda is None:
        yield Finding(
            "note",
            "no GPU: this PyTorch is built without CUDA",
            "fine for smoke and desk scale; paper scale needs a GPU",
        )
    else:
        yield Finding(
            "note",
            "no GPU that PyTorch can use",
            "fine for smoke and desk scale; for paper scale see that the NVIDIA driver is loaded",
        )
    yield Finding(
        "ok",
        f"processor {provenance.processor()['name']}, {' '.join(provenance.processor()['flags'])}",
    )


def _threads() -> Iterator[Finding]:
    from repfl.bench.run.machine import processors
    from repfl.bench.store import provenance

    usable, present = processors(), os.cpu_count() or 1
    text = (
        f"{usable} of {present} processors usable: `repfl run` starts {usable} workers of one"
        " thread each"
    )
    yield Finding("ok" if usable == present else "note", text)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(name, "1") != "1":
            yield Finding(
                "note",
                f"{name}={os.environ[name]}",
                "repfl sets one thread per worker itself; results do not depend on this",
            )
    for name in provenance.KERNEL_VARIABLES:
        if name in os.environ:
            yield Finding(
                "note",
                f"{name}={os.environ[name]}",
                "chooses other numeric kernels: digests will differ from those of other runs",
            )


def _disk(root: Path) -> Iterator[Finding]:
    from repfl.datasets.core.cache import data_root

    for name, folder in (("results folder", root), ("data root", data_root())):
        there = next(
            path for path in (real_path(folder), *real_path(folder).parents) if path.exists()
        )
        free = shutil.disk_usage(there).free
        if not os.access(there, os.W_OK):
            yield Finding(
                "bad" if name == "results folder" else "note",
                f"{name} {folder} cannot be written",
                "choose another folder",
            )
        elif free < LOW_DISK:
            yield Finding("bad", f"{name} {folder}: only {free >> 20} MiB free", "free some space")
        else:
            yield Finding("ok", f"{name} {folder}: {free >> 30} GiB free")


def _memory() -> Iterator[Finding]:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return
    low = free < LOW_MEMORY
    yield Finding(
        "note" if low else "ok",
        f"{free / (1 << 30):.1f} GiB of memory free",
        "use fewer --workers if cells die" if low else "",
    )


def _data() -> Iterator[Finding]:
    from repfl.bench.grid.recipes import data_absent
    from repfl.datasets.core import registry

    absent = {name: data_absent(name) for name in registry.names()}
    here = [name for name, why in absent.items() if not why]
    yield Finding(
        "ok" if "digits" in here else "bad",
        f"data here: {', '.join(here) or 'none'}",
        "" if "digits" in here else absent.get("digits", ""),
    )
    missing = [name for name, why in absent.items() if why]
    if missing:
        yield Finding(
            "note",
            f"data absent: {', '.join(missing)}",
            "smoke scale needs none of it; otherwise `repfl data get NAME`",
        )


def _clone() -> Iterator[Finding]:
    from repfl.bench.store import provenance

    own = provenance.commit()
    if own["commit"] is None:
        yield Finding(
            "note",
            "not a git clone, or git is not installed",
            "records will not name the commit they were made by",
        )
    else:
        yield Finding(
            "note" if own["dirty"] else "ok",
            f"commit {own['commit'][:12]}{' with uncommitted changes' if own['dirty'] else ''}",
        )
