"""One fault costs one line that names it; everything else is still rendered."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure as Canvas

from repfl.bench.grid import grid as grids
from repfl.paper_tables.core.result import Figure, NewCanvas
from repfl.paper_tables.star_pfl import artefacts
from tests.bench.conftest import Here

PAPER = "star-pfl"


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The paper's grid and numbers where a test may spoil them."""
    root = tmp_path / "papers"
    shutil.copytree(
        grids.ROOT / "star_pfl",
        root / "star_pfl",
        ignore=shutil.ignore_patterns("measured", "*.py", "__pycache__"),
    )
    monkeypatch.setattr(grids, "ROOT", root)
    return root / "star_pfl"


@pytest.fixture
def report(here: Here, tmp_path: Path) -> Callable[[], tuple[Any, set[str]]]:
    """Render the paper from an empty store; what was said, and which files there are."""

    def render() -> tuple[Any, set[str]]:
        out = tmp_path / "out"
        said = here("report", "--paper", PAPER, "--results", tmp_path / "none", "--out", out)
        return said, {path.name for path in (out / PAPER).glob("*.*")}

    return render


def test_a_bad_published_row_is_named_and_its_table_has_all_others(
    copy: Path, report: Callable[[], tuple[Any, set[str]]]
) -> None:
    path = copy / "published" / "table2.csv"
    lines = path.read_text().splitlines()
    fields = lines[4].split(",")
    lines[4] = lines[4].replace(fields[6], "ninety", 1)
    path.write_text("\n".join(lines) + "\n")
    said, files = report()
    assert said.code == 1
    _, problem = said.out.split("problem: ")
    assert problem.splitlines()[0].endswith(
        "table2.csv:5: mean 'ninety' is neither a number nor a range"
    )
    assert {"table2.csv", "table3.csv"} <= files


def fails(_: Any) -> Figure:
    raise ZeroDivisionError("no rows\nat all")


def undrawn(_: Any) -> Figure:
    def broken(new_canvas: NewCanvas) -> Canvas:
        raise RuntimeError("no such colour")

    return Figure("star-pfl", "table2", "Table 2", "", "smoke", draw=broken)


@pytest.mark.parametrize(
    ("maker", "told", "shown"),
    [
        (fails, "table2: ZeroDivisionError: no rows", "could not be made: ZeroDivisionError"),
        (undrawn, "table2 could not be drawn: RuntimeError: no such", "Could not be rendered (Ru"),
    ],
)
def test_an_artefact_that_cannot_be_made_or_drawn_says_why_in_its_place_and_others_are_there(
    copy: Path,
    report: Callable[[], tuple[Any, set[str]]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    maker: Callable[[Any], Figure],
    told: str,
    shown: str,
) -> None:
    monkeypatch.setitem(artefacts.ARTEFACTS, "table2", maker)
    said, files = report()
    assert said.code == 3
    assert f"artefact star-pfl/{told}" in " ".join(said.out.split())
    assert "table3.csv" in files
    assert "table2.csv" not in files
    assert shown in (tmp_path / "out" / "index.html").read_text("utf-8")
