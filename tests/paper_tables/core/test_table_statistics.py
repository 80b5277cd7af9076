"""Statistics of tables against hand-made numbers."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.statistics import intervals as st
from repfl.paper_tables.core.statistics import rank_statistics
from repfl.paper_tables.core.statistics.seeds import SeedResult, common_floor


def test_spread_uses_ddof_1_and_ignores_what_is_absent() -> None:
    found = st.spread([1.0, float("nan"), 3.0])
    assert (found.mean, found.count) == (2.0, 2)
    assert found.std == pytest.approx(2**0.5)
    assert isnan(found.low)
    assert isnan(st.spread([1.0]).std)
    assert isnan(st.spread([]).mean)


def test_an_interval_takes_three_runs_and_is_student_s() -> None:
    assert isnan(st.spread([1.0, 2.0]).low)
    assert st.spread([1.0, 2.0, 3.0]).high == pytest.approx(2 + 4.303 / 3**0.5, abs=1e-3)
    assert st.spread([1.0, 2.0, 2.0, 3.0]).low == pytest.approx(2 - 3.182 / 6**0.5, abs=1e-3)


def test_variances_are_pooled_by_their_degrees_of_freedom() -> None:
    assert st.pooled((1.0, 2.0), (4.0, 1.0), (nan, 0.0)) == st.Variance(2.0, 3.0)
    assert st.pooled((nan, 0.0)) is None


def test_kendall_counts_agreement_of_rankings() -> None:
    assert rank_statistics.kendall([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert rank_statistics.kendall([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_statistics.kendall([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert rank_statistics.kendall([1, 1, 1], [1, 2, 3]) is None
    assert rank_statistics.kendall([1], [1]) is None


def test_average_ranks_share_ties_and_skip_incomplete_columns() -> None:
    wide = pd.DataFrame(
        {"a": [3.0, 2.0, 1.0], "b": [2.0, 2.0, 1.0], "c": [1.0, np.nan, 2.0]}, index=["x", "y", "z"]
    )
    assert list(rank_statistics.average_ranks(wide)) == [1.25, 1.75, 3.0]
    assert rank_statistics.average_ranks(wide[["c"]]).isna().all()


def test_a_column_of_two_scales_has_the_floor_of_the_full_one() -> None:
    scales = {"paper": 64.48, "desk": 60.24, "smoke": 39.35}
    cells = pd.DataFrame(
        {"row": scale, "scale": scale, "floor": floor, "by_seed": (SeedResult(42, 80.0, floor),)}
        for scale, floor in scales.items()
    )
    assert common_floor(cells) == (64.48, (42,))
    assert isnan(common_floor(cells[1:])[0])


def test_a_row_that_stands_aside_has_no_part_in_the_floor_of_the_others() -> None:
    cells = pd.DataFrame(
        {"row": row, "scale": "paper", "floor": floor, "by_seed": (SeedResult(seed, 80.0, floor),)}
        for row, seed, floor in (("ours", 1, 62.15), ("more", 2, 72.4))
    )
    assert common_floor(cells, ["more"]) == (62.15, (1,))
    assert isnan(common_floor(cells)[0])
    assert common_floor(cells[1:], ["more"]) == (72.4, (2,))
