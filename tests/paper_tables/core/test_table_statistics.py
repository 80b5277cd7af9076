"""Statistics of tables against hand-made numbers."""

from __future__ import annotations

from math import isnan

import numpy as np
import pandas as pd
import pytest

from paper_tables.core import statistics as st


def test_spread_uses_ddof_1_and_ignores_what_is_absent() -> None:
    found = st.spread([1.0, float("nan"), 3.0])
    assert (found.mean, found.count) == (2.0, 2)
    assert found.std == pytest.approx(2**0.5)
    assert isnan(found.low)


def test_one_seed_has_no_deviation_and_none_has_no_mean() -> None:
    assert isnan(st.spread([1.0]).std)
    assert isnan(st.spread([]).mean)


def test_bootstrap_intervals_repeat_and_do_not_depend_on_order() -> None:
    values = [1.0, 2.0, 4.0, 8.0]
    low, high = st.bootstrap(values)
    assert low < np.mean(values) < high
    assert st.bootstrap(values[::-1]) == (low, high)
    assert st.bootstrap([2.0, 2.0, 2.0]) == (2.0, 2.0)


def test_kendall_counts_agreement_of_rankings() -> None:
    assert st.kendall([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert st.kendall([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert st.kendall([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert st.kendall([1, 1, 1], [1, 2, 3]) is None
    assert st.kendall([1], [1]) is None


def test_average_ranks_share_ties_and_skip_incomplete_columns() -> None:
    wide = pd.DataFrame({"a": [3.0, 2.0, 1.0], "b": [2.0, 2.0, 1.0], "c": [1.0, np.nan, 2.0]}, index=["x", "y", "z"])
    assert list(st.average_ranks(wide)) == [1.25, 1.75, 3.0]
    assert st.average_ranks(wide[["c"]]).isna().all()


def test_interquartile_mean_drops_the_outer_quarters() -> None:
    assert st.interquartile_mean([0, 1, 2, 100]) == 1.5
    assert isnan(st.interquartile_mean([]))


def test_paired_difference_pairs_by_key() -> None:
    first = pd.Series({("c", 1): 2.0, ("c", 2): 4.0, ("d", 1): 9.0})
    second = pd.Series({("c", 2): 1.0, ("c", 1): 1.0})
    gap, p_value, pairs = st.paired_difference(first, second)
    assert (gap, pairs) == (2.0, 2)
    assert 0 < p_value < 1
    assert st.paired_difference(second, second)[:2] == (0.0, 1.0)
    assert isnan(st.paired_difference(first, pd.Series(dtype=float))[0])
