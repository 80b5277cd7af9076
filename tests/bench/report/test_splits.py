"""Pictures of splits are of the clients that runs have, though no data are read."""

from __future__ import annotations

from repfl.bench.evidence import floors
from repfl.bench.grid.plan import Selection, plan
from repfl.bench.grid.recipes import recipe_from
from repfl.bench.report.site import splits
from repfl.datasets.core.partition import partition


def test_a_split_from_published_class_counts_is_the_split_of_the_data() -> None:
    (row,) = (r for r in floors.read("fedobp") if r["recipe"] == "cifar10-dir0.1")
    planned = plan(Selection(scale="paper", artefacts=["fedobp/table3"], datasets=["cifar10"]))
    item = next(item for item in planned if item.column == "cifar10-dir0.1")
    pool = splits._pool("cifar10")
    assert pool is not None
    shares = partition(pool, recipe_from(dict(item.cell.recipe), item.key), int(row["seed"]))
    assert shares.digest == row["partition"]
