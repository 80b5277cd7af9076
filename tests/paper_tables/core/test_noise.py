"""The noise that a single run borrows from other cells, and how often its interval covers."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.statistics import noise
from repfl.paper_tables.core.statistics.intervals import Variance, half_width

POOL = noise.pool("paper", one_partition=True)


def runs(cells: dict[str, tuple[float, ...]], *, shared: bool = False) -> pd.DataFrame:
    """Runs of one setting, by method."""
    rows = [
        (POOL, "s", method, "v", seed, value, shared)
        for method, values in cells.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows, columns=list(noise.RUNS))


def test_equally_noisy_cells_add_their_degrees_of_freedom() -> None:
    found = noise.noise_by_pool(runs({"a": (1, 2, 3), "b": (5, 6, 7), "c": (7, 8, 9), "d": (1,)}))
    assert found == {POOL: Variance(1.0, 6.0)}


def test_one_loud_cell_among_quiet_ones_leaves_few_degrees_of_freedom() -> None:
    quiet = dict.fromkeys("abcdefgh", (1.0, 1.1, 1.2))
    found = noise.noise_by_pool(runs(quiet | {"loud": (0.0, 10.0, 20.0)}))[POOL]
    assert found.variance == pytest.approx(100 / 9, rel=0.01)
    assert found.df == pytest.approx(2.0, rel=0.01)


def test_few_cells_say_nothing_and_methods_on_the_same_partitions_are_one_cell() -> None:
    cells = dict.fromkeys("abc", (1.0, 2.0, 3.0))
    assert noise.noise_by_pool(runs({name: cells[name] for name in "ab"})) == {}
    assert noise.noise_by_pool(runs(cells, shared=True)) == {}
    settings = [runs(cells, shared=True).assign(setting=name) for name in "stu"]
    assert noise.noise_by_pool(pd.concat(settings)) == {POOL: Variance(1.0, 6.0)}


@pytest.mark.parametrize(
    ("cells", "unequal"), [(6, 0.5), (6, 2.0), (17, 1.0), (40, 0.5), (40, 2.0)]
)
def test_intervals_of_single_runs_cover_about_as_often_as_they_say(
    cells: int, unequal: float
) -> None:
    """In worlds whose cells are equally noisy, or as unequal as ours, of which some have two seeds
    and some three: two runs of a further cell differ by less than the interval says.
    """
    rng = np.random.Generator(np.random.Philox(cells + round(100 * unequal)))
    inside = []
    for _ in range(60):
        level = 2 * rng.standard_normal()
        true = np.exp(level + unequal * rng.standard_normal(cells + 40))
        seen = {
            str(i): tuple(80 + sqrt(v) * rng.standard_normal(2 + i % 2))
            for i, v in enumerate(true[:cells])
        }
        known = noise.noise_by_pool(runs(seen))[POOL]
        gaps = np.sqrt(2 * true[cells:]) * rng.standard_normal(40)
        inside += list(np.abs(gaps) <= half_width(known.variance, known.df, 2.0))
    assert 0.92 <= np.mean(inside) <= 0.985
