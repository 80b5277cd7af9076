"""Statistics, against values worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.trust.statistics import average_ranks, bottom_decile, interquartile_mean, interval, paired, spread


def test_spread_uses_ddof_one() -> None:
    assert spread([1.0, 2.0, 3.0]) == (2.0, 1.0, 3)
    assert math.isnan(spread([5.0]).std)
    assert spread([]).size == 0


def test_the_interval_contains_the_mean_and_ignores_order() -> None:
    values = [0.1, 0.4, 0.2, 0.35, 0.3]
    low, high = interval(values)
    assert low < np.mean(values) < high
    assert interval(values[::-1]) == (low, high)
    assert interval([2.0, 2.0]) == (2.0, 2.0)


def test_tails_and_middles() -> None:
    assert bottom_decile(np.arange(100)) == 4.5
    assert bottom_decile([0.3, 0.1]) == 0.1
    assert interquartile_mean([0, 1, 2, 3, 4, 5, 6, 100]) == 3.5


def test_paired_differences_look_at_common_keys_only() -> None:
    found = paired({1: 0.5, 2: 0.6, 3: 0.9}, {1: 0.4, 2: 0.4, 4: 0.0})
    assert found.difference == pytest.approx(0.15)
    assert found.pairs == 2
    assert 0 < found.p_value < 1
    assert paired({1: 0.5, 2: 0.5}, {1: 0.5, 2: 0.5}).p_value == 1.0
    assert math.isnan(paired({1: 1.0}, {}).difference)


def test_ranks_share_ties_and_skip_gaps() -> None:
    table = np.array([[3.0, 1.0, np.nan], [2.0, 1.0, 5.0], [1.0, 0.0, 6.0]])
    assert average_ranks(table).tolist() == [1.25, 1.75, 3.0]
    assert np.isnan(average_ranks(np.full((2, 1), np.nan))).all()
