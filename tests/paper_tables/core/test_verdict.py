"""Verdicts are read off intervals for the difference."""

from __future__ import annotations

from math import isnan, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd
import pytest

from repfl.paper_tables.core.statistics.intervals import Variance
from repfl.paper_tables.core.statistics.verdict import (
    MARGIN,
    Kind,
    Printing,
    Runs,
    Verdict,
    at_floor,
    compare,
    discrimination,
    judge,
    verdicts_of,
)

QUIET, LOUD = Variance(0.04, 20), Variance(25.0, 20)


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-0.9, 0.8, "reproduced"),
        (0.1, 1.0, "reproduced"),  # a difference, but a smaller one than matters
        (-4.0, -2.0, "differs"),
        (1.1, 9.0, "differs"),
        (0.9, 9.0, "undecided"),  # apart, but perhaps by less than matters
        (-0.2, 1.1, "undecided"),
        (-30.0, 30.0, "undecided"),
        (nan, nan, "undecided"),
    ],
)
def test_every_interval_has_one_verdict(low: float, high: float, said: str) -> None:
    assert verdicts_of(low, high) == said
    assert verdicts_of(-high, -low) == said


@pytest.mark.parametrize(
    ("printed", "ours", "borrowed", "said"),
    [
        (Runs(80.0), Runs(80.1), QUIET, Verdict.REPRODUCED),
        (Runs(80.0), Runs(82.0), QUIET, Verdict.DIFFERS),
        (Runs(80.0), Runs(81.0), QUIET, Verdict.UNDECIDED),
        # equal numbers prove nothing where runs lie five points apart
        (Runs(80.0), Runs(80.0), LOUD, Verdict.UNDECIDED),
        (Runs(80.0, 0.2, 4), Runs(80.1, 0.2, 4), None, Verdict.REPRODUCED),
        # six points are no match because runs are noisy
        (Runs(80.0, 3.17, 4), Runs(86.0, nan, 1), None, Verdict.UNDECIDED),
        (Runs(80.0, 0.3, 4), Runs(81.6, 0.3, 4), None, Verdict.DIFFERS),
        (Runs(80.0, 0.6, 5), Runs(80.5, 0.6, 5), None, Verdict.UNDECIDED),
    ],
)
def test_verdicts_depend_on_the_noise_and_on_the_runs_of_both_sides(
    printed: Runs, ours: Runs, borrowed: Any, said: Verdict
) -> None:
    found = judge(printed, ours, borrowed=borrowed)
    assert found.verdict == said
    assert found.low < ours.mean - printed.mean < found.high
    assert found.basis


def test_single_runs_without_a_pool_conclude_nothing() -> None:
    for ours in (Runs(80.0), Runs(80.0, 0.0, 2)):  # equal runs do not tell how noisy they are
        found = judge(Runs(80.0), ours)
        assert found.verdict == Verdict.UNDECIDED
        assert isnan(found.low)


def test_a_cell_s_own_seeds_count_before_those_of_other_cells() -> None:
    found = judge(Runs(80.0), Runs(80.2, 0.05, 3), borrowed=LOUD)
    half = 4.302653 * 0.05 * sqrt(1 + 1 / 3)
    assert (found.low, found.high) == (pytest.approx(0.2 - half), pytest.approx(0.2 + half))
    assert found.verdict == Verdict.REPRODUCED
    single = judge(Runs(80.0), Runs(80.2), borrowed=LOUD)
    assert single.high == pytest.approx(0.2 + 2.085963 * 5 * sqrt(2))


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_a_smaller_scale_is_not_compared(scale: str) -> None:
    assert judge(Runs(80.0), Runs(80.0), scale=scale, borrowed=QUIET).verdict == Verdict.OTHER_SCALE
    assert judge(Runs(80.0), Runs(nan), scale=scale).verdict == Verdict.MISSING


@pytest.mark.parametrize("kind", [Kind.TRAINED, Kind.CLOSED])
def test_numbers_of_different_things_are_not_compared(kind: Kind) -> None:
    """The best round beside the last, or a count that leaves out what the printed one has."""
    found = judge(Runs(80.0), Runs(80.0), kind=kind, borrowed=QUIET, why_incomparable="why")
    assert (found.verdict, found.basis) == (Verdict.OTHER_SCALE, "why")


@pytest.mark.parametrize("scale", ["smoke", "desk", "paper"])
@pytest.mark.parametrize("kind", [Kind.CLOSED, Kind.LOOKUP])
def test_numbers_without_runs_are_held_to_the_printed_digits_at_every_scale(
    kind: Kind, scale: str
) -> None:
    def said(printed: float, ours: float, rounding: float = 0.0) -> Verdict:
        return judge(Runs(printed), Runs(ours), kind=kind, scale=scale, rounding=rounding).verdict

    assert said(4.69, 4.68827, 0.005) == Verdict.REPRODUCED
    assert said(53, 53) == Verdict.REPRODUCED
    assert said(53, 59) == Verdict.DIFFERS
    assert said(3.005, 2.9774, 0.0005) == Verdict.DIFFERS  # 0.93 % is not the printed digits
    assert said(3.0, nan) == Verdict.MISSING


def test_measured_costs_have_a_margin_of_their_own_size() -> None:
    def said(ours: Runs) -> Verdict:
        return judge(Runs(100.0), ours, kind=Kind.COST, unit="MiB").verdict

    assert said(Runs(100.5, 0.05, 3)) == Verdict.REPRODUCED
    assert said(Runs(102.0, 0.05, 3)) == Verdict.DIFFERS
    assert said(Runs(100.5, nan, 1)) == Verdict.UNDECIDED


def test_a_printed_accuracy_is_at_the_floor_when_it_is_not_a_point_above() -> None:
    assert at_floor(67.47, 66.47)
    assert at_floor(60.0, 66.47)
    assert not at_floor(67.48, 66.47)
    assert not at_floor(67.48, nan)


# -- how often the rule errs -----------------------------------------------------------------------

DEVIATIONS = (0.05, 0.2, 0.5, 1.0, 3.0)
"""From quiet to loud cells."""
DRAWS = 80


def side(mean: float, deviation: float, runs: int, rng: np.random.Generator, told: bool) -> Runs:
    """Invented runs, as a table has them."""
    values = mean + deviation * rng.standard_normal(runs)
    std = float(np.std(values, ddof=1)) if runs > 1 and told else nan
    return Runs(float(values.mean()), std, runs)


@pytest.mark.parametrize("told", [False, True], ids=["no ±", "with ±"])
@pytest.mark.parametrize("theirs", [1, 3, 5])
@pytest.mark.parametrize("ours", [2, 3, 5])
def test_the_rule_errs_in_at_most_five_per_cent(ours: int, theirs: int, told: bool) -> None:
    rng = np.random.Generator(np.random.Philox(100 * ours + 10 * theirs + told))
    said: dict[float, list[Verdict]] = {0.0: [], 0.9: [], MARGIN: []}
    covered = []
    for gap, verdicts in said.items():
        for deviation in DEVIATIONS:
            for _ in range(DRAWS):
                mine = side(80 + gap, deviation, ours, rng, told=True)
                found = compare(side(80, deviation, theirs, rng, told), mine, None)
                verdicts.append(found.verdict)
                covered.append(found.low <= gap <= found.high)
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)
    for verdicts in said.values():
        assert verdicts.count(Verdict.DIFFERS) <= 0.06 * len(verdicts)
    assert said[MARGIN].count(Verdict.REPRODUCED) <= 0.06 * len(said[MARGIN])


# -- what a paper says of its numbers --------------------------------------------------------------


def test_a_printed_deviation_counts_only_if_the_paper_says_what_it_is() -> None:
    stated = Printing(runs=3, deviation=True).side(80.0, 1.0)
    assert (stated.std, stated.count) == (pytest.approx(sqrt(1.5)), 3)
    unknown = Printing(runs=3).side(80.0, 1.0)
    assert isnan(unknown.std)
    assert unknown.count == 3
    assert isnan(Printing(deviation=True).side(80.0, 1.0).std)
    assert Printing(runs=3, deviation=True).side(80.0, 0.0).variance_and_df[1] == 0


def table(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"column": "c", "kind": "trained accuracy", **columns})


def test_a_column_tells_how_many_wrong_pairs_its_margin_lets_through() -> None:
    frame = table(
        row=["a", "b", "far", "unmeasured"],
        printed=[80.0, 80.4, 90.0, 80.1],
        ours=[80.1, 80.5, 90.1, nan],
        difference_low=[-0.3, -0.3, -5.0, nan],
        difference_high=[0.5, 0.5, 5.2, nan],
        verdict=["reproduced", "reproduced", "undecided", "not measured"],
    )
    found = discrimination(frame).loc["c"]
    assert found.tolist() == [9, 4, 4]
    assert discrimination(frame.assign(difference_low=-2.0)).loc["c", "reproduced"] == 0
