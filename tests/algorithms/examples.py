"""The example methods of bench/examples, known for one test."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from repfl.algorithms.core.method import methods
from repfl.bench.grid import plugins
from tests.bench.conftest import ROOT, forgotten


@pytest.fixture
def example() -> Iterator[Callable[[str], Any]]:
    """Load an example; return its module."""

    def load(name: str) -> Any:
        plugins.load([str(ROOT / "bench" / "examples" / f"{name.replace('-', '_')}.py")])
        return sys.modules[methods()[name].cls.__module__]

    with forgotten():
        yield load
