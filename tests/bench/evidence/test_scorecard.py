"""The README's results: from committed measured values and floors, never typed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.cells import grid as grids
from bench.evidence import coverage, pages, scorecard
from bench.evidence.measured import folder_of
from datasets.core.errors import DataError
from datasets.core.store import open_dataset


def readme() -> str:
    found = pages.read(scorecard.README, "results")
    assert found
    return found


@pytest.mark.parametrize("paper", ["pfeddst", "star-pfl"])
def test_the_readme_counts_what_the_tables_say(paper: str) -> None:
    assert scorecard.verdict_lines(scorecard.results("desk", [paper]))[-1] in readme()


@pytest.mark.slow
def test_the_readme_block_is_up_to_date() -> None:
    assert scorecard.block(scorecard.results("desk"), scorecard.results("paper")) in readme()


def test_what_a_constant_reaches_is_told_by_column() -> None:
    place = scorecard.Place("fedobp", "table3", "CIFAR-10, Dir(0.1)", 64.48)
    above = scorecard.Place("fedobp", "table3", "CIFAR-10, Dir(0.5)", 35.66)
    known = [
        scorecard.Printed(place, "FedAvg", 58.15),
        scorecard.Printed(place, "FedPer", 84.98),
        scorecard.Printed(above, "FedAvg", 63.98),
    ]
    head, _, *lines = scorecard.floor_lines(known)
    assert head.startswith("Of 3 printed accuracies")
    assert ", 1 are not above" in head
    assert lines == ["* FedOBP table3, CIFAR-10, Dir(0.1) (floor 64.48): FedAvg 58.15"]


def test_floors_are_read_as_the_recipe_averages_them() -> None:
    assert scorecard.floors("fedobp")["cifar10-dir0.1"] == pytest.approx(64.48, abs=0.01)  # pooled; the mean over clients is 67.81
    assert scorecard.floors("fedpurin")["cifar10-dir0.1"] == pytest.approx((62.15 + 72.40 + 72.15) / 3, abs=0.01)


def test_floors_stay_where_the_data_are_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path))
    assert scorecard.measure_floors("fedselect") == []


@pytest.mark.parametrize("paper", ["fedobp", "fedselect"])
def test_committed_floors_come_out_again(paper: str) -> None:
    """On machines that have the data; one recipe is enough, all of them take minutes."""
    from datasets.core.partition import deal, floor

    row = next(row for row in scorecard.read_floors(paper) if row["recipe"].startswith("cifar10"))
    recipe = grids.read(grids.files()[paper]).recipe(row["recipe"], "paper")
    try:
        prepared = open_dataset(recipe.dataset)
    except DataError:
        pytest.skip("cifar10 is not here")
    shares = deal(prepared, recipe, int(row["seed"]))
    assert shares.digest == row["partition"]
    assert floor(shares, np.asarray(prepared.labels)) == pytest.approx((float(row["mean"]), float(row["pooled"])), abs=1e-6)


def test_every_paper_has_its_floors() -> None:
    assert all((folder_of(paper) / "floors.csv").exists() for paper in grids.files())


@pytest.mark.parametrize("paper", list(grids.files()))
def test_a_papers_page_says_how_much_of_its_grid_has_been_measured(paper: str) -> None:
    found = pages.read(coverage.page_of(paper), "coverage")
    assert found
    assert coverage.block(paper) in found
