"""A whole report on disk, for tests of its files and of what browsers make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.report.sheet import Book
from tests.bench.report import book as books


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site") / "report"


@pytest.fixture(scope="module")
def book(folder: Path) -> Book:
    return books.write(folder)
