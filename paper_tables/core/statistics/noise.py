"""The noise of a single run: how far apart runs of our other cells lie that differ in their seed
alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from repfl.paper_tables.core.statistics.intervals import Variance

RUNS = ("pool", "setting", "method", "variant", "seed", "value", "shared")
MIN_CELLS = 3
"""Cells with several seeds from which a pool says anything."""

Noise = Mapping[str, Variance]
"""The variance between runs in each pool of cells."""


def pool(scale: str, *, one_partition: bool) -> str:
    """Name the cells whose noise is compared: one scale, and whether each seed has a partition."""
    return f"{scale}, {'one partition' if one_partition else 'a partition per seed'}"


def noise_by_pool(runs: pd.DataFrame) -> dict[str, Variance]:
    """Return the mean variance between the seeds of a cell, weighted by degrees of freedom, from
    accuracies in percent (columns `RUNS`).

    Cells are not equally noisy, so the sum of degrees of freedom would promise too much. Ours are
    Satterthwaite's: the more unequal the variances, the fewer. Methods that share the partitions
    of their seeds err together, and count as one cell.
    """
    by_cell = runs.groupby(["pool", "shared", "setting", "method", "variant"])["value"]
    cells = by_cell.agg(variance="var", df="count")
    cells["df"] = cells["df"] - 1.0
    cells = cells[cells["df"] > 0].reset_index().astype({"shared": bool})
    if cells.empty:
        return {}
    settings = cells[cells["shared"]].groupby(["pool", "setting"], as_index=False)
    cells = pd.concat(
        [cells[~cells["shared"]], settings.agg(variance=("variance", "mean"), df=("df", "max"))]
    )
    result = {}
    for name, group in cells.groupby("pool"):
        squares = group["variance"] * group["df"]
        if len(group) >= MIN_CELLS and squares.sum() > 0:
            df = squares.sum() ** 2 / (squares * group["variance"]).sum()
            result[str(name)] = Variance(float(squares.sum() / group["df"].sum()), float(df))
    return result
