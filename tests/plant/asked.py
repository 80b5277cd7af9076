"""The gate of a copy of this clone, asked in a process that has nothing of this clone itself:
import nothing of it here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

LIBRARIES = ["torch", "numpy", "scipy.optimize", "scipy.stats", "sklearn.datasets", "pandas"]
LIBRARIES += ["pyarrow.parquet", "pydantic", "safetensors.torch", "filelock", "threadpoolctl"]
LIBRARIES += ["rich.progress"]
"""What takes long to import and is no part of the clone."""
REFERENCE = "here.json"


def ask(clone: str, names: tuple[str, ...], recipes: tuple[str, ...], pipe: Any) -> None:
    """Compute some of the gate's cells and send what moved."""
    enter(clone)
    from repfl.bench.run import runner

    gate: Any = import_module("repfl.bench.check.gate")

    assert str(gate.__file__).startswith(clone)
    runner.choose_executor = lambda *_: ("inline", 1)
    if recipes:
        narrow(gate, names, recipes, setattr)
    pipe.send(told(gate.check(Path(REFERENCE), names, 1)))


def enter(clone: str) -> None:
    """Take the code of a clone, in silence."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.chdir(clone)
    sys.path.insert(0, clone)
    # a file that changes twice a second must not be taken for its predecessor
    sys.dont_write_bytecode = True


def tests(clone: str, files: list[str], pipe: Any) -> None:
    """Run tests until one fails; send its name and why."""
    enter(clone)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]  # this one is of another clone
    import pytest

    class Failures:
        found: ClassVar[list[tuple[str, str]]] = []

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.note(report)

        def pytest_collectreport(self, report: Any) -> None:
            self.note(report)

        def note(self, report: Any) -> None:
            if report.failed:
                self.found.append((report.nodeid, report.longreprtext.strip().split("\n")[-1]))

    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider"]
    code = pytest.main([*options, *files], plugins=[Failures()])
    pipe.send(Failures.found or ([] if code == 0 else [(files[0], f"pytest ended with {code}")]))


def narrow(
    gate: Any, names: Sequence[str], recipes: Container[str], put: Callable[[Any, str, Any], None]
) -> None:
    """Let the gate compute and compare the cells of some recipes alone."""
    whole = gate.read_reference
    kept = {key: each for key, each in gate.cells(names).items() if each.column in recipes}

    def narrowed(path: Path | None) -> dict[str, Any]:
        reference = whole(path)
        cells = {key: cell for key, cell in reference["cells"].items() if key in kept}
        return {**reference, "cells": cells}

    put(gate, "cells", lambda _: kept)
    put(gate, "read_reference", narrowed)


def told(found: Any) -> list[str]:
    return [f"{move.spec} {move.recipe}: {move.why}" for move in found.moved]
