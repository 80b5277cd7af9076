from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from repfl.datasets.core import cache
from tests.datasets.tiny import Cifar, tiny_cifar


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root that does not exist yet."""
    return tmp_path / "root"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Data that a test embedded are in no cache after it."""
    yield
    cache._embedded.cache_clear()


@pytest.fixture
def cifar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cifar:
    """CIFAR-10 with a few images per class, and an .npz file of it."""
    return tiny_cifar(monkeypatch, tmp_path)
