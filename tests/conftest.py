"""The tests, and every process they start, compute as cells do: with one thread each, however
pytest was called.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # before anything imports torch
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or every process would compile torch anew
# What a user has set for commands of their own: where results go, and how wide or coloured text is.
TASTES = ("REPFL_CONTRIBUTOR", "REPFL_RESULTS", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
for name in (*TASTES, "TTY_COMPATIBLE", "TTY_INTERACTIVE", "MPLBACKEND"):
    os.environ.pop(name, None)


def pytest_collection_finish() -> None:
    """Leave what is imported by now out of every later search for garbage; each cell makes one."""
    gc.set_threshold(50_000, 20, 50)  # as the command does
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    """What a test registers or loads is unknown again after it, whatever the order of tests is."""
    from repfl.bench.grid import plugins

    with plugins.isolated():
        yield
