"""The gate of a copy of this clone, asked in a process that has nothing of this clone itself:
import nothing of it here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Container
from importlib import import_module
from pathlib import Path
from typing import Any

LIBRARIES = ["torch", "numpy", "scipy.optimize", "scipy.stats", "sklearn.datasets", "pandas"]
LIBRARIES += ["pyarrow.parquet", "pydantic", "safetensors.torch", "filelock", "threadpoolctl"]
LIBRARIES += ["rich.progress"]
"""What takes long to import and is no part of the clone."""
REFERENCE = "here.json"


def ask(clone: str, names: tuple[str, ...], recipes: tuple[str, ...], pipe: Any) -> None:
    """Compute some of the gate's cells and send what moved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.chdir(clone)
    sys.path.insert(0, clone)
    # a file that changes twice a second must not be taken for its predecessor
    sys.dont_write_bytecode = True
    from repfl.bench.run import runner

    gate: Any = import_module("repfl.bench.check.gate")

    assert str(gate.__file__).startswith(clone)
    runner.choose_executor = lambda *_: ("inline", 1)
    every, whole = gate.cells, gate.read_reference
    gate.cells = lambda names: {
        key: planned
        for key, planned in every(names).items()
        if not recipes or planned.column in recipes
    }
    asked = gate.cells(names)
    gate.read_reference = lambda path: narrowed(whole(path), asked)
    pipe.send(told(gate.check(Path(REFERENCE), names, 1)))


def narrowed(reference: dict[str, Any], asked: Container[str]) -> dict[str, Any]:
    """A reference of the cells that are asked for alone."""
    cells = {key: cell for key, cell in reference["cells"].items() if key in asked}
    return {**reference, "cells": cells}


def told(found: Any) -> list[str]:
    return [f"{move.spec} {move.recipe}: {move.why}" for move in found.moved]
