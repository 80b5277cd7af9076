"""Curves are compared in windows, against the noise that our own seeds show there."""

from __future__ import annotations

from math import isnan, sqrt

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.statistics.curve_gap import compare_curves

ROUNDS = np.arange(1, 41)


def runs(*curves: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {"seed": seed, "round": round_, "value": value}
        for seed, curve in enumerate(curves)
        for round_, value in zip(ROUNDS, curve, strict=True)
    )


def test_differences_are_of_the_window_alone_and_root_mean_squares_have_no_sign() -> None:
    base = 80.0 + 0.1 * ROUNDS
    early = ROUNDS <= 10
    printed = pd.Series(base + np.where(early, 3.0, np.where(ROUNDS % 2, 1.0, -1.0)), ROUNDS)
    three = runs(base - 0.1, base, base + 0.1)
    found = compare_curves(three, printed, [(1, 10), (11, 40)])
    assert found["difference"].tolist() == pytest.approx([-3.0, 0.0])
    assert found["rms"].tolist() == pytest.approx([3.0, 1.0])
    assert found["rounds"].tolist() == [10, 30]
    assert found["noise"].tolist() == pytest.approx([0.1, 0.1])
    # Student's t of two degrees of freedom, for three runs of ours and one of theirs
    assert found.loc[1, "high"] == pytest.approx(4.3027 * 0.1 * sqrt(4 / 3), rel=1e-4)
    assert found["verdict"].tolist() == ["differs", "reproduced"]


def test_one_seed_shows_the_difference_and_decides_nothing() -> None:
    found = compare_curves(runs(80.0 + 0 * ROUNDS), pd.Series(70.0, ROUNDS), [(1, 40)]).loc[0]
    assert (found["difference"], found["seeds"], found["verdict"]) == (10.0, 1, "undecided")
    assert isnan(found["low"])
    assert isnan(found["noise_rms"])


def test_only_rounds_that_both_have_count() -> None:
    printed = pd.Series({5: 80.0, 10: 80.0, 100: 0.0})
    curve = 80.0 + 0 * ROUNDS
    found = compare_curves(runs(curve, curve + 1), printed, [(1, 40), (50, 200)])
    assert found["rounds"].tolist() == [2, 0]
    assert found["difference"].tolist()[0] == pytest.approx(0.5)
    assert isnan(found["difference"].tolist()[1])


def test_intervals_cover_and_the_noise_is_that_of_one_more_run() -> None:
    """Runs that differ by a level of their own and by the round."""
    rng = np.random.Generator(np.random.Philox(5))
    covered, ratios = [], []
    for _ in range(300):
        curves = 80 + rng.standard_normal((4, 1)) + rng.standard_normal((4, len(ROUNDS)))
        found = compare_curves(runs(*curves[:3]), pd.Series(curves[3], ROUNDS), [(1, 40)]).loc[0]
        covered.append(found["low"] <= 0 <= found["high"])
        ratios.append((found["rms"], found["noise_rms"]))
    assert np.mean(covered) == pytest.approx(0.95, abs=0.04)
    shown, expected = np.sqrt(np.mean(np.square(ratios), axis=0))
    assert shown == pytest.approx(expected, rel=0.15)
