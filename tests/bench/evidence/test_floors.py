"""Floors and pictures of splits need no training and no data: what is committed comes out again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from repfl.bench.evidence import floors
from repfl.bench.evidence.measured import folder_of
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.recipes import recipe_from
from repfl.bench.report.site import splits
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ClientSplits, majority_accuracy, partition


def test_one_constant_for_all_is_the_most_frequent_class_of_all_clients_together() -> None:
    """Three clients that each know one class best; together they hold class 1 most often."""
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 1, 0, 0, 1, 2])
    train = [np.array([0, 1, 2]), np.array([3, 4]), np.array([5, 6, 7])]
    test = [np.array([8, 9, 10]), np.array([10]), np.array([11])]
    shares = ClientSplits.of(train, test)
    assert majority_accuracy(shares, labels) == pytest.approx(((2 / 3 + 1 + 1) / 3, 4 / 5))
    assert floors.global_majority(shares, labels) == pytest.approx(((1 / 3 + 1 + 0) / 3, 2 / 5))


def test_a_global_floor_is_told_where_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "measured"
    folder.mkdir()
    rows = ["cifar10-dir0.1,42,0.6,0.5,0.3,0.2,x", "cifar10-dir0.5,42,0.6,0.5,,,x"]
    (folder / "floors.csv").write_text("\n".join([",".join(floors.FIELDS), *rows]))
    monkeypatch.setattr(floors, "folder_of", lambda paper: folder)
    assert floors.one_for_all("fedobp") == {("cifar10-dir0.1", 42): {"clients": 0.3, "pooled": 0.2}}


def test_floors_stay_where_the_data_are_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path))
    assert floors.measure("fedselect") == []


@pytest.mark.parametrize("paper", ["fedobp", "fedselect"])
def test_floors_come_out_again(paper: str) -> None:
    """On machines that have the data; one recipe is enough, all of them take minutes."""
    row = next(row for row in floors.read(paper) if row["recipe"].startswith("cifar10"))
    recipe = grids.read(grids.files()[paper]).recipe(row["recipe"], "paper")
    try:
        prepared = open_dataset(recipe.dataset)
    except DataError:
        pytest.skip("cifar10 is not here")
    shares = partition(prepared, recipe, int(row["seed"]))
    assert shares.digest == row["partition"]
    assert majority_accuracy(shares, np.asarray(prepared.labels)) == pytest.approx(
        (float(row["mean"]), float(row["pooled"])), abs=1e-6
    )


def test_every_documented_paper_has_its_floors() -> None:
    assert all((folder_of(paper) / "floors.csv").exists() for paper in grids.printed())


def test_a_split_from_published_class_counts_is_the_split_of_the_data() -> None:
    (row,) = (r for r in floors.read("fedobp") if r["recipe"] == "cifar10-dir0.1")
    planned = plan(Selection(scale="paper", artefacts=["fedobp/table3"], datasets=["cifar10"]))
    item = next(item for item in planned if item.column == "cifar10-dir0.1")
    pool = splits._pool("cifar10")
    assert pool is not None
    shares = partition(pool, recipe_from(dict(item.cell.recipe), item.key), int(row["seed"]))
    assert shares.digest == row["partition"]
