"""What further runs of ours may make of a printed number: the chance that its verdict is settled.

Settled is *reproduced* or *differs*: the interval lies inside the margin, or leaves out zero and
reaches beyond it. The chance is simulated, through the rule itself, from what the noise model
expects of the deviation between runs and from how far ours and printed numbers have been apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

import numpy as np

from repfl.paper_tables.core.statistics import Expected, half_width, pooled
from repfl.paper_tables.core.verdict import MARGIN, Runs, Verdict, words

DRAWS = 4000
APART = 2.0
"""Points that ours and a printed number truly differ by, as a deviation, where nothing tells."""
FEWEST = 8
"""So many measured differences tell more than that."""
SETTLED = (Verdict.REPRODUCED, Verdict.DIFFERS)


@dataclass(frozen=True)
class Prospect:
    """Chances of the two settled verdicts."""

    reproduced: float = 0.0
    differs: float = 0.0

    @property
    def settled(self) -> float:
        return self.reproduced + self.differs


def apart(differences: Sequence[float]) -> float:
    """How far ours and printed numbers are apart, as a deviation that few strays hardly move."""
    kept = np.abs([each for each in differences if isfinite(each)])
    return max(MARGIN / 2, float(np.median(kept)) / 0.6745) if len(kept) >= FEWEST else APART


@lru_cache(maxsize=100_000)
def prospect(
    expected: Expected, printed: Runs, ours: Runs | None, runs: int, spread: float
) -> Prospect:
    """The chances once there are so many runs of ours, of which `ours` are there already; `spread`
    is the deviation of the true difference.
    """
    here = 0 if ours is None else ours.count
    if runs <= here:
        return Prospect()
    rng = np.random.Generator(np.random.Philox(0))
    sources = [printed.known] + ([ours.known] if ours else [])
    before = pooled(expected, *sources)
    true = before.df * before.variance / rng.chisquare(before.df, DRAWS)
    new = runs - here
    if ours is None:
        center = rng.normal(0, spread, DRAWS) + rng.normal(0, 1, DRAWS) * np.sqrt(
            true / printed.count
        )
        gap = center + rng.normal(0, 1, DRAWS) * np.sqrt(true / new)
    else:
        seen = ours.mean - printed.mean
        center = seen + rng.normal(0, 1, DRAWS) * np.sqrt(true / here)
        later = center + rng.normal(0, 1, DRAWS) * np.sqrt(true / new)
        gap = (here * seen + new * later) / runs
    # what the new runs tell of their deviation: one degree of freedom less where none was there
    more = new - (here == 0)
    squares = before.df * before.variance + (true * rng.chisquare(more, DRAWS) if more else 0.0)
    df = before.df + more
    half = half_width(1 / df, df, 1 / runs + 1 / printed.count) * np.sqrt(squares)
    said = words(gap - half, gap + half)
    return Prospect(*(float(np.mean(said == str(verdict))) for verdict in SETTLED))
