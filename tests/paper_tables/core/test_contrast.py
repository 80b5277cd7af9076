"""Contrasts of cells: what decides a sentence, and how often that errs."""

from __future__ import annotations

from math import isnan, nan

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from repfl.paper_tables.core.claims.contrast import (
    Contrast,
    by_seed,
    decide,
    estimate,
    estimate_from,
    p_at_least,
    printed_answer,
)

LEAD = Contrast({("a", "c"): 1.0, ("b", "c"): -1.0})


def runs(**rows: dict[int, float]) -> pd.DataFrame:
    """Numbers of one column c, by seed."""
    lines = [(row, "c", *run) for row, values in rows.items() for run in values.items()]
    return pd.DataFrame(lines, columns=["row", "column", "seed", "value"])


def seeds(*values: float) -> dict[int, float]:
    return dict(enumerate(values))


def test_the_two_sided_p_value_is_that_of_scipys_t_test() -> None:
    values = np.array([1.0, 1.2, 0.8, -0.3])
    expected = stats.ttest_1samp(values, 0.0).pvalue
    assert estimate_from(LEAD, values).p_two_sided == pytest.approx(expected)
    assert estimate_from(LEAD, np.zeros(3)).p_two_sided == 1.0
    assert isnan(estimate_from(LEAD, values[:2]).p_two_sided)


def test_a_contrast_is_paired_by_the_seeds_that_all_cells_have() -> None:
    """Rows that move together by ten points, and a seed that one of them lacks."""
    found = runs(a=seeds(61, 71.2, 65.8, 99), b=seeds(60, 70, 65))
    known = estimate(LEAD, by_seed(found))
    assert (known.value, known.seeds) == (pytest.approx(1.0), 3)
    assert known.high - known.value == pytest.approx(4.3027 * 0.2 / 3**0.5, rel=1e-4)
    assert decide([[LEAD]], None, found).holds is True


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_common_seeds_show_the_difference_and_decide_nothing(count: int) -> None:
    found = decide([[LEAD]], None, runs(a=seeds(*[70.0] * count), b=seeds(*[60.0] * 5)))
    assert found.holds is None
    assert (found.deciding.value, found.deciding.seeds) == (10.0, count)
    assert isnan(found.deciding.low)
    assert decide([[LEAD]], None, runs(a={1: 1.0}, b={2: 2.0})).compared == 0


THREE = runs(a=seeds(70, 70.1, 69.9), b=seeds(60, 60.1, 60), z=seeds(50, 50.1, 50.2))
OVER = [Contrast({("a", "c"): 1.0, (row, "c"): -1.0}) for row in ("b", "z", "missing")]
UNDER = [Contrast({("z", "c"): 1.0, (row, "c"): -1.0}) for row in ("a", "b", "missing")]


@pytest.mark.parametrize(
    ("groups", "least", "holds", "met"),
    [
        ([OVER[:2]], None, True, 2),
        ([OVER], None, None, 2),  # missing numbers refute nothing
        ([OVER], 2, True, 2),
        ([UNDER], None, False, 0),  # one clear exception refutes "all"
        ([UNDER], 1, None, 0),  # the missing one may be met
        ([UNDER[:2]], 1, False, 0),
        ([OVER[:1], UNDER[:1]], None, False, 1),
        ([[OVER[0], UNDER[0]], [OVER[1], UNDER[1]]], 1, True, 2),  # one in each group
    ],
)
def test_in_every_group_at_least_some_contrasts_have_to_be_met(
    groups: list[list[Contrast]], least: int | None, holds: bool | None, met: int
) -> None:
    found = decide(groups, least, THREE)
    assert (found.holds, found.met) == (holds, met)


def test_the_deciding_difference_is_the_last_one_that_is_needed() -> None:
    rows = {"b": 60.0, "y": 65.0, "z": 50.0}
    given = runs(a=seeds(62, 62, 62), **{row: seeds(*[v] * 3) for row, v in rows.items()})
    leads = [Contrast({("a", "c"): 1.0, (row, "c"): -1.0}) for row in rows]
    values = [decide([leads], least, given).deciding.value for least in (1, 2, 3)]
    assert values == [12.0, 2.0, -3.0]


def test_a_stated_number_is_met_within_a_tolerance() -> None:
    near = Contrast({("a", "c"): 1.0}, 69.5, near=True, tolerance=1.0)
    assert decide([[near]], None, THREE).holds is True
    far = Contrast({("a", "c"): 1.0}, 75.0, near=True, tolerance=1.0)
    assert decide([[far]], None, THREE).holds is False
    noisy = runs(a=seeds(60, 70, 80))
    assert decide([[near]], None, noisy).holds is None


def test_printed_numbers_have_no_noise_and_ties_leave_a_lead_open() -> None:
    cells = {("a", "c"): 2.0, ("b", "c"): 2.0, ("z", "c"): 1.0}
    assert printed_answer([[LEAD]], None, cells) is None
    tie = Contrast(LEAD.weights, ties=True)
    assert printed_answer([[tie]], None, cells) is True
    assert printed_answer([OVER], None, cells) is None
    assert printed_answer([UNDER], None, cells) is False
    assert printed_answer([UNDER], 1, cells) is None
    near = Contrast({("a", "c"): 1.0}, 2.004, near=True, rounding=0.005)
    assert printed_answer([[near]], None, cells) is True
    assert printed_answer([[near]], None, {("a", "c"): nan}) is None
    assert printed_answer([], None, cells) is None


def test_p_values_of_partial_conjunctions() -> None:
    values = [0.01, 0.2, 0.03]
    assert p_at_least(values, 1) == pytest.approx(0.03)  # Bonferroni
    assert p_at_least(values, 2) == pytest.approx(0.06)
    assert p_at_least(values, 3) == pytest.approx(0.2)


@pytest.mark.parametrize("least", [1, 4, 6])
def test_sentences_on_equal_rows_are_seldom_decided(least: int) -> None:
    """Six rivals as good as the row, on four seeds: "above at least so many of them"."""
    rng, above, below = np.random.Generator(np.random.Philox(least)), [], []
    for _ in range(1000):
        own, rivals = rng.standard_normal(4), rng.standard_normal((6, 4))
        found = [estimate_from(LEAD, own - rival) for rival in rivals]
        above.append(p_at_least([each.p_met for each in found], least))
        below.append(p_at_least([each.p_not for each in found], 6 - least + 1))
    assert np.mean(np.array(above) <= 0.025) <= 0.035
    assert np.mean(np.array(below) <= 0.025) <= 0.035


@pytest.mark.parametrize("count", [3, 5])
def test_intervals_cover_as_often_as_they_say(count: int) -> None:
    rng = np.random.Generator(np.random.Philox(count))
    found = [estimate_from(LEAD, rng.standard_normal(count)) for _ in range(1000)]
    covered = [each.low <= 0 <= each.high for each in found]
    assert covered == [each.p_two_sided >= 0.05 for each in found]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.025)
