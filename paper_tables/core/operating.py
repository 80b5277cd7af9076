"""How often the verdicts err: simulated from what the noise model expects, through the rule
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from repfl.paper_tables.core.statistics import Expected, half_width
from repfl.paper_tables.core.verdict import MARGIN, Verdict, words

DRAWS = 60_000
CLEAR = 3.0
"""A difference, in margins, that one would wish to see."""


@dataclass(frozen=True)
class Rates:
    """What the rule says of many simulated numbers whose true difference is the same."""

    said: dict[str, float]
    """Share of every verdict."""
    covered: float
    """Share of the intervals that contain the true difference."""


@dataclass(frozen=True)
class Characteristics:
    """How often the rule errs, and how often it finds what is there."""

    false_alarms: float
    """*Differs* with no difference."""
    false_acceptances: float
    """*Reproduced* with a difference of the margin."""
    reproduced: float
    """*Reproduced* with no difference."""
    found: float
    """*Differs* with a difference of three margins."""
    covered: float


def simulate(
    expected: Sequence[Expected],
    ours: int,
    theirs: int,
    gap: float,
    *,
    printed: bool,
    margin: float = MARGIN,
    draws: int = DRAWS,
) -> Rates:
    """Cells in turn, each with a variance that the model thinks possible; `printed`: whether the
    paper prints its runs' deviation.
    """
    rng = np.random.Generator(np.random.Philox(0))
    df, variance = np.array([(each.df, each.variance) for each in expected]).T
    turn = np.arange(draws) % len(expected)
    squares = (df * variance)[turn]
    true = squares / rng.chisquare(df[turn])
    share = 1 / ours + 1 / theirs
    for runs in (ours, theirs if printed else 1):
        if runs > 1:
            squares = squares + true * rng.chisquare(runs - 1, draws)
            df = df + (runs - 1)
    seen = gap + np.sqrt(true * share) * rng.standard_normal(draws)
    half = half_width(1 / df, df, share)[turn] * np.sqrt(squares)
    given = words(seen - half, seen + half, margin)
    return Rates(
        {str(v): float(np.mean(given == str(v))) for v in Verdict},
        float(np.mean(np.abs(seen - gap) <= half)),
    )


def operating_characteristics(
    expected: Sequence[Expected],
    ours: int,
    theirs: int,
    *,
    printed: bool,
    margin: float = MARGIN,
    draws: int = DRAWS,
) -> Characteristics:
    """How the rule does with so many runs of ours and of theirs."""
    none, one, clear = (
        simulate(expected, ours, theirs, gap * margin, printed=printed, margin=margin, draws=draws)
        for gap in (0.0, 1.0, CLEAR)
    )
    return Characteristics(
        none.said[Verdict.DIFFERS],
        one.said[Verdict.REPRODUCED],
        none.said[Verdict.REPRODUCED],
        clear.said[Verdict.DIFFERS],
        none.covered,
    )


SEEDS = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
"""Numbers of our runs that are tried."""
ENDLESS = 10**6
"""More runs than anybody makes: what is left is the noise of the printed number."""


def runs_needed(expected: Sequence[Expected], theirs: int, *, printed: bool) -> int | None:
    """How many runs of ours it takes until half of the numbers that are equal come out
    *reproduced*; none where no number of runs is enough, since the printed mean is itself too
    noisy.
    """

    def enough(ours: int) -> bool:
        found = simulate(expected, ours, theirs, 0.0, printed=printed, draws=DRAWS // 10)
        return found.said[Verdict.REPRODUCED] >= 0.5

    return next((ours for ours in SEEDS if enough(ours)), None) if enough(ENDLESS) else None
