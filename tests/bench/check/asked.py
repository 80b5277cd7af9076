"""The gate of a copy of this clone, asked in a process that has nothing of this clone itself:
import nothing of it here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

LIBRARIES = [
    "torch",
    "numpy",
    "scipy.optimize",
    "scipy.stats",
    "sklearn.datasets",
    "pandas",
    "pyarrow.parquet",
]
LIBRARIES += ["pydantic", "safetensors.torch", "filelock", "threadpoolctl", "rich.progress"]
"""What takes long to import and is no part of the clone."""
REFERENCE = "here.json"


def ask(clone: str, names: tuple[str, ...], recipes: tuple[str, ...], pipe: Any) -> None:
    """Compute some of the gate's cells and send what moved."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    os.chdir(clone)
    sys.path.insert(0, clone)
    sys.dont_write_bytecode = (
        True  # a file that changes twice a second must not be taken for its predecessor
    )
    from repfl.bench.run import runner

    regress: Any = import_module("repfl.bench.check.regress")

    assert str(regress.__file__).startswith(clone)
    runner.choose_executor = lambda *_: ("inline", 1)
    every = regress.places
    regress.places = lambda names: [
        found for found in every(names) if not recipes or found[0].recipe in recipes
    ]
    wanted, whole = {place.key for place, _ in regress.places(names)}, regress.read_reference
    regress.read_reference = lambda path: narrowed(whole(path), wanted)
    pipe.send(told(regress.check(Path(REFERENCE), names, 1)))


def narrowed(reference: dict[str, Any], wanted: set[str]) -> dict[str, Any]:
    """A reference of the cells that are asked for alone."""
    return {
        **reference,
        "cells": {key: cell for key, cell in reference["cells"].items() if key in wanted},
    }


def told(found: Any) -> list[str]:
    return [f"{move.spec} {move.recipe}: {move.why}" for move in found.moved]
