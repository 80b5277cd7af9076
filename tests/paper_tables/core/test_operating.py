"""The rule errs no more often than it says, for one, three and five runs on either side."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from repfl.bench.evidence import noise as fitted
from repfl.paper_tables.core.operating import operating_characteristics, runs_needed, simulate
from repfl.paper_tables.core.statistics import Expected
from repfl.paper_tables.core.verdict import MARGIN, Runs, Verdict, compare

RUNS = (1, 3, 5)
KNOWN = (
    Expected(0.01, 1.2),
    Expected(0.04, 2.0),
    Expected(0.25, 3.0),
    Expected(1.0, 6.0),
    Expected(4.0, 2.0),
)
"""From quiet to loud, from hardly to well known."""
MOST, SAMPLING = 0.05, 0.003
"""SAMPLING: three standard errors of a share of 5 % in so many draws."""


@pytest.mark.parametrize("printed", [False, True])
@pytest.mark.parametrize("theirs", RUNS)
@pytest.mark.parametrize("ours", RUNS)
def test_false_alarms_and_false_acceptances_stay_below_five_percent(
    ours: int, theirs: int, printed: bool
) -> None:
    for expected in KNOWN:
        found = operating_characteristics([expected], ours, theirs, printed=printed)
        assert found.false_alarms <= MOST + SAMPLING
        assert found.false_acceptances <= MOST
        assert found.covered == pytest.approx(0.95, abs=0.02)


def test_more_runs_find_more() -> None:
    found = [
        operating_characteristics([Expected(0.25, 3.0)], runs, runs, printed=True) for runs in RUNS
    ]
    assert found[0].reproduced < found[1].reproduced < found[2].reproduced
    assert found[0].found < found[1].found < found[2].found


def test_the_same_simulation_gives_the_same_rates() -> None:
    assert simulate(KNOWN, 3, 3, 0.0, printed=True, draws=500) == simulate(
        KNOWN, 3, 3, 0.0, printed=True, draws=500
    )


def test_every_simulated_number_has_a_verdict() -> None:
    said = simulate(KNOWN, 1, 3, 1.0, printed=True).said
    assert sum(said.values()) == pytest.approx(1)
    assert said[Verdict.MISSING] == 0


def test_runs_of_ours_cannot_make_up_for_few_noisy_runs_of_theirs() -> None:
    """One printed run that deviates by more than a point is never reproduced; a quiet one is."""
    assert runs_needed([Expected(1.5**2, 30.0)], 1, printed=False) is None
    assert runs_needed([Expected(1.5**2, 30.0)], 100, printed=False) in range(8, 101)
    assert runs_needed([Expected(0.1**2, 30.0)], 1, printed=False) == 1


def test_the_rates_of_todays_model_are_as_promised() -> None:
    """On what came with the code: what the report prints."""
    head, *lines = fitted.operating()
    shares = np.array([[float(text.removesuffix(" %")) for text in line[4:]] for line in lines])
    assert len(lines) == len({paper for paper, *_ in lines}) * len(fitted.OURS)
    assert len({paper for paper, *_ in lines}) >= 5
    assert all(len(line) == len(head) for line in lines)
    assert (shares[:, :2] <= 100 * (MOST + SAMPLING)).all()


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (1, 5), (3, 3), (5, 1)])
def test_the_rule_itself_errs_as_its_simulation_says(ours: int, theirs: int) -> None:
    """Invented runs, judged one by one as tables judge them."""
    rng, expected, draws = np.random.Generator(np.random.Philox(1)), Expected(0.25, 4.0), 1500
    said: dict[float, list[Verdict]] = {0.0: [], MARGIN: []}
    for gap, words in said.items():
        for true in expected.df * expected.variance / rng.chisquare(expected.df, draws):
            mine = gap + true**0.5 * rng.standard_normal(ours)
            printed = true**0.5 * rng.standard_normal(theirs)
            sides = [
                Runs(float(side.mean()), float(np.std(side, ddof=1)) if side.size > 1 else nan, n)
                for side, n in ((printed, theirs), (mine, ours))
            ]
            words.append(compare(*sides, expected).verdict)
    for gap, verdict in ((0.0, Verdict.DIFFERS), (MARGIN, Verdict.REPRODUCED)):
        share = said[gap].count(verdict) / draws
        simulated = simulate([expected], ours, theirs, gap, printed=theirs > 1).said[verdict]
        assert simulated <= MOST + SAMPLING
        assert share == pytest.approx(simulated, abs=4 * (MOST / draws) ** 0.5)
