"""Numbers of half precision stand apart: in the store, in what is collected, in what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from repfl.bench.evidence.artefacts import make
from repfl.bench.evidence.collect import collect
from repfl.bench.evidence.library import Library
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.report import numbers
from repfl.bench.store.store import Store
from repfl.paper_tables.core.result import Table
from tests.bench.conftest import Here


@pytest.fixture
def half(here: Here, grid: Path, tmp_path: Path) -> Path:
    """A store of one artefact in half precision."""
    said = here(*asked(grid, tmp_path), "--precision", "bf16")
    assert said.code == 0, said.err
    return tmp_path / "results"


def asked(grid: Path, folder: Path) -> list[str | Path]:
    where = ["--results", folder / "results", "--executor", "inline"]
    return ["run", "--grid", grid, "--method", "fedavg", *where]


def test_a_store_holds_numbers_of_one_precision(
    half: Path, here: Here, grid: Path, tmp_path: Path
) -> None:
    for more in ((), ("--fresh",), ("--precision", "fp32")):
        said = here(*asked(grid, tmp_path), *more)
        assert (said.code, said.err.count("\n")) == (2, 1), said.err
        assert "was computed with precision bf16" in said.err
        assert "--results" in said.err
    assert here(*asked(grid, tmp_path), "--precision", "bf16").code == 0


def test_numbers_of_half_precision_are_marked_and_never_collected(
    half: Path, grid: Path, tmp_path: Path
) -> None:
    planned = plan(Selection(files=[grid], papers=["tests"], methods=["fedavg"]))
    made = make(planned, Library(Store(half)), tmp_path / "papers")
    (table,) = (result for result in made.results if isinstance(result, Table))
    cell = table.cell("FedAvg", table.layout.columns[0].key)
    assert cell is not None
    assert numbers.founded(cell).endswith(numbers.MARKS["half"])
    found = collect(planned, Store(half), tmp_path / "papers")
    assert (found.files, found.half) == ([], 4)
