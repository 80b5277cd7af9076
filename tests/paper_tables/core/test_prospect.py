"""Chances of a settled verdict follow from noise, runs and how far numbers are apart."""

from __future__ import annotations

from itertools import pairwise
from math import nan

import pytest

from repfl.paper_tables.core.prospect import APART, apart, prospect
from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import Runs, Verdict, compare

QUIET, LOUD = Expected(0.02, 6.0), Expected(4.0, 6.0)
PRINTED = Runs(80.0, nan, 3)


def test_more_runs_settle_more_often() -> None:
    chances = [prospect(QUIET, PRINTED, None, runs, 0.5).settled for runs in range(1, 6)]
    assert all(after > before - 0.02 for before, after in pairwise(chances))
    assert chances[-1] > 0.9


def test_noise_leaves_numbers_open() -> None:
    assert prospect(LOUD, PRINTED, None, 1, 0.5).settled < 0.1
    assert prospect(QUIET, PRINTED, None, 1, 0.5).settled > 0.5


def test_numbers_that_are_far_apart_differ_and_near_ones_are_reproduced() -> None:
    near, far = (prospect(QUIET, PRINTED, None, 3, spread) for spread in (0.1, 20.0))
    assert near.reproduced > 0.9 > 0.1 > near.differs
    assert far.differs > 0.9 > 0.1 > far.reproduced


def test_what_is_measured_is_taken_into_account() -> None:
    off = prospect(QUIET, PRINTED, Runs(90.0), 2, 0.5)
    on = prospect(QUIET, PRINTED, Runs(80.1), 3, 0.5)
    assert off.differs > 0.99
    assert on.reproduced > off.reproduced
    assert prospect(QUIET, PRINTED, Runs(80.1), 1, 0.5).settled == 0.0


@pytest.mark.parametrize(("gap", "word"), [(0.0, Verdict.REPRODUCED), (9.0, Verdict.DIFFERS)])
def test_what_is_certain_is_what_the_rule_says(gap: float, word: Verdict) -> None:
    sure = Expected(1e-4, 30.0)
    assert compare(PRINTED, Runs(80.0 + gap), sure).verdict == word
    found = prospect(sure, PRINTED, Runs(80.0 + gap), 2, 0.5)
    assert max(found.reproduced, found.differs) == pytest.approx(1.0)
    assert (found.differs > found.reproduced) == (word == Verdict.DIFFERS)


def test_how_far_apart_numbers_are_is_learned_from_enough_of_them() -> None:
    assert apart([5.0] * 3) == APART
    assert apart([0.1] * 10) == 0.5
    assert apart([3.0, -3.0] * 5 + [90.0]) == pytest.approx(3 / 0.6745)
    assert apart([nan] * 50) == APART
