"""The noise model learns from cells with several seeds, and intervals made with it cover what they
say.
"""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.statistics import noise
from repfl.paper_tables.core.statistics.intervals import Prior, half_width, pooled, spread

WORLDS = 100
Groups = list[tuple[str, str, str, float, int, bool]]


def frame(rows: Groups) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(noise.GROUPS))


def typical(prior: Prior) -> float:
    """The deviation of a run in the middle of what is expected."""
    return exp(prior.mean / 2)


def test_quiet_cells_make_quiet_cells_expected_and_a_cell_does_not_count_itself() -> None:
    quiet: Groups = [("paper", "s", f"m{i}", 0.01, 4, False) for i in range(8)]
    loud: Groups = [("desk", "s", f"m{i}", 9.0, 4, False) for i in range(8)]
    odd: Groups = [("paper", "s", "odd", 900.0, 4, False)]
    model = noise.Noise(frame([*quiet, *loud, *odd]))
    assert typical(model.expected("paper", "s", "odd")) < 0.15
    assert typical(model.expected("desk", "s", "new")) > 2.0
    # an odd cell makes others less certain
    apart = noise.Noise(frame([*quiet, *loud]))
    assert (
        model.expected("paper", "s", "new").spread > apart.expected("paper", "s", "new").spread + 1
    )


def test_the_fewer_cells_have_several_seeds_the_less_is_known() -> None:
    def after(cells: int, *, shared: bool = False) -> Prior:
        return noise.predict(frame([("p", "s", str(i), 1.0, 2, shared) for i in range(cells)]))

    spreads = [after(cells).spread for cells in (0, 1, 4, 16)]
    assert spreads == sorted(spreads, reverse=True)
    # rows that share their partitions err together, and count as one
    assert after(16, shared=True).spread > after(16).spread
    known = pooled(after(0))
    assert 5 < half_width(known.variance, known.df, 2.0) < 50


def test_runs_become_groups_and_equal_accuracies_are_not_noiseless() -> None:
    values = {"m": (80.0, 81.0, 82.0), "n": (70.0, 70.0), "single": (70.0,)}
    runs = [
        ("desk", "s", method, "v", seed, value, 400, False)
        for method, own in values.items()
        for seed, value in enumerate(own)
    ]
    found = noise.groups_of(pd.DataFrame(runs, columns=list(noise.RUNS))).set_index("method")
    assert set(found.index) == {"m", "n"}
    assert (found.loc["m", "variance"], found.loc["m", "df"]) == (1.0, 2)
    assert found.loc["n", "variance"] == pytest.approx(0.25**2 / 12)


@pytest.mark.parametrize("cells", [1, 6, 30])
@pytest.mark.parametrize("runs", [1, 3, 5])
def test_intervals_of_means_cover_as_often_as_they_say(cells: int, runs: int) -> None:
    """In worlds whose cells are about as unequal as ours, of which some have three seeds."""
    rng = np.random.Generator(np.random.Philox(cells * 10 + runs))
    inside = []
    for _ in range(WORLDS):
        level, unequal = 2 * rng.standard_normal(), exp(0.7 * rng.standard_normal())
        true = np.exp(level + unequal * rng.standard_normal(cells + 10))
        seen = true[:cells] * rng.chisquare(2, cells) / 2
        rows: Groups = [("p", str(i), "m", float(v), 2, False) for i, v in enumerate(seen)]
        prior = noise.predict(frame(rows))
        for variance in true[cells:]:
            found = spread(list(sqrt(variance) * rng.standard_normal(runs)), prior)
            inside.append(found.low <= 0 <= found.high)
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


def test_runs_of_a_cell_move_what_is_expected_of_it() -> None:
    prior = Prior(0.0, 4.0)
    quiet, loud = pooled(prior, (0.01, 4)), pooled(prior, (100.0, 4))
    assert quiet.variance < 0.1 < 10 < loud.variance
    assert pooled(prior, (0.01, 40)).variance == pytest.approx(0.01, rel=0.1)
    assert log(pooled(prior, (0.0, 2)).variance) > -20
