"""A published curve compared with ours, window of rounds by window of rounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt

import pandas as pd
from scipy import special

from repfl.paper_tables.core.statistics.verdict import MARGIN, verdicts_of

LEVEL = 0.95
COLUMNS = (
    "first", "last", "rounds", "seeds",
    "difference", "low", "high", "rms", "noise", "noise_rms", "verdict",
)  # fmt: skip


def compare_curves(
    ours: pd.DataFrame,
    printed: pd.Series,
    windows: Sequence[tuple[int, int]],
    margin: float = MARGIN,
) -> pd.DataFrame:
    """Return how far our curves lie from a published one, a row per window (columns `COLUMNS`).

    `ours` has the columns seed, round and value, `printed` is indexed by round; both in points.
    A window goes from its first to its last round, and its rounds are those that the printed curve
    and every seed have.

    `difference` is the mean signed difference, ours minus printed, with a t-interval of our seeds'
    differences: the printed curve counts as one more run. `rms` is the root mean square difference
    of our mean curve. Beside them stands what two runs of ours would show: `noise` is the standard
    deviation of a seed's mean over the window, `noise_rms` the root mean square difference that
    one more run has from the mean of ours. With one seed, noise and interval are NaN and
    the verdict is undecided.
    """
    wide = ours.pivot(index="round", columns="seed", values="value").dropna()
    gaps = wide.sub(printed.dropna(), axis="index").dropna()  # [rounds, seeds]
    rows = [_window(gaps.loc[first:last], first, last, margin) for first, last in windows]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _window(gaps: pd.DataFrame, first: int, last: int, margin: float) -> tuple[object, ...]:
    rounds, seeds = gaps.shape
    if not rounds or not seeds:
        return first, last, rounds, seeds, *[nan] * 6, str(verdicts_of(nan, nan))
    by_seed = gaps.mean()
    difference, noise = float(by_seed.mean()), float(by_seed.std(ddof=1))
    half = float(special.stdtrit(seeds - 1, (1 + LEVEL) / 2)) * noise * sqrt(1 / seeds + 1)
    low, high = difference - half, difference + half
    rms = sqrt(float((gaps.mean(axis="columns") ** 2).mean()))
    noise_rms = sqrt(float(gaps.var(axis="columns", ddof=1).mean()) * (1 / seeds + 1))
    verdict = str(verdicts_of(low, high, margin))
    return first, last, rounds, seeds, difference, low, high, rms, noise, noise_rms, verdict
