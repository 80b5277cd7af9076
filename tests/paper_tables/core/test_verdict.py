"""Verdicts are read off intervals for the difference."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np
import pytest

from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import Kind, Runs, Verdict, at_floor, judge, words

QUIET, LOUD = Expected(0.04, 10.0), Expected(25.0, 10.0)


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
    assert words(low, high) == said
    assert words(-high, -low) == said


@pytest.mark.parametrize(
    ("printed", "ours", "expected", "said"),
    [
        (Runs(80.0), Runs(80.1), QUIET, Verdict.REPRODUCED),
        (Runs(80.0), Runs(82.0), QUIET, Verdict.DIFFERS),
        (Runs(80.0), Runs(81.0), QUIET, Verdict.UNDECIDED),
        (
            Runs(80.0),
            Runs(80.0),
            LOUD,
            Verdict.UNDECIDED,
        ),  # equal numbers prove nothing where runs lie five points apart
        (Runs(80.0, 0.2, 4), Runs(80.1, 0.2, 4), None, Verdict.REPRODUCED),
        (
            Runs(80.0, 3.17, 4),
            Runs(86.0, nan, 1),
            None,
            Verdict.UNDECIDED,
        ),  # six points are no match because runs are noisy
        (Runs(80.0, 0.3, 4), Runs(81.6, 0.3, 4), None, Verdict.DIFFERS),
        (Runs(80.0, 0.6, 5), Runs(80.5, 0.6, 5), None, Verdict.UNDECIDED),
    ],
)
def test_verdicts_depend_on_the_noise_and_on_the_runs_of_both_sides(
    printed: Runs, ours: Runs, expected: Any, said: Verdict
) -> None:
    found = judge(printed, ours, expected=expected)
    assert found.verdict == said
    assert found.low < ours.mean - printed.mean < found.high
    assert found.basis


def test_without_a_model_and_with_few_runs_nothing_is_concluded() -> None:
    found = judge(Runs(80.0), Runs(80.0, 0.1, 2))
    assert found.verdict == Verdict.UNDECIDED
    assert isnan(found.low)


def test_more_runs_give_shorter_intervals() -> None:
    found = [
        judge(Runs(80.0, 0.5, runs), Runs(80.0, 0.5, runs), expected=QUIET) for runs in (2, 3, 5, 9)
    ]
    widths = np.array([each.high - each.low for each in found])
    assert (np.diff(widths) < 0).all()


@pytest.mark.parametrize("scale", ["smoke", "desk"])
def test_a_smaller_scale_is_not_compared(scale: str) -> None:
    assert judge(Runs(80.0), Runs(80.0), scale=scale, expected=QUIET).verdict == Verdict.OTHER_SCALE
    assert judge(Runs(80.0), Runs(nan), scale=scale).verdict == Verdict.MISSING


def test_another_rule_is_not_compared() -> None:
    found = judge(
        Runs(80.0), Runs(80.0), expected=QUIET, apart="the paper's is the best round, ours the last"
    )
    assert (found.verdict, found.basis) == (
        Verdict.OTHER_SCALE,
        "the paper's is the best round, ours the last",
    )


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


def test_a_count_of_other_things_is_not_called_different() -> None:
    """A closed form that leaves out what the printed one may have in it."""
    found = judge(Runs(3.005), Runs(2.977), kind=Kind.CLOSED, apart="ours leaves some out")
    assert (found.verdict, found.basis) == (Verdict.OTHER_SCALE, "ours leaves some out")
