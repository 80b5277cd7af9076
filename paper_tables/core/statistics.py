"""The statistics that tables print, as pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import isfinite, nan
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

LEVEL = 0.95
FEWEST = 3
"""Of fewer runs the deviation alone tells too little; see `noise.Expected` for what can be said of
them.
"""
ENUMERATED = 12
"""Up to so many pairs all changes of signs are tried."""


@dataclass(frozen=True)
class Expected:
    """A variance between runs, in squared points, and how many degrees of freedom its knowledge is
    worth.
    """

    variance: float
    df: float


@dataclass(frozen=True)
class Spread:
    """A sample of seeds in five numbers."""

    mean: float
    std: float
    """Standard deviation with ddof 1; NaN for a single seed."""
    low: float
    high: float
    """95 % interval of the mean: Student's t of three seeds or more, and of fewer where a noise
    model says what to expect.
    """
    count: int
    df: float = nan
    """Degrees of freedom of the interval."""


def spread(values: Sequence[float], expected: Expected | None = None) -> Spread:
    """Mean, deviation and interval of the finite values. What a noise model expects counts as
    further degrees of freedom.
    """
    kept = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    if not len(kept):
        return Spread(nan, nan, nan, nan, 0)
    mean, std = float(kept.mean()), float(kept.std(ddof=1)) if len(kept) > 1 else nan
    half = df = nan
    if expected is not None or len(kept) >= FEWEST:
        known = pooled(expected, (std**2, len(kept) - 1))
        half, df = float(half_width(known.variance, known.df, 1 / len(kept))), known.df
    return Spread(mean, std, mean - half, mean + half, len(kept), df)


def pooled(expected: Expected | None, *known: tuple[float, float]) -> Expected:
    """One variance out of several (variance, degrees of freedom), each weighted by its degrees of
    freedom.
    """
    parts = [(variance, df) for variance, df in known if df > 0 and isfinite(variance)]
    parts += [(expected.variance, expected.df)] if expected is not None else []
    df = sum(df for _, df in parts)
    return Expected(sum(variance * df for variance, df in parts) / df if df else nan, df)


def half_width(variance: Any, df: Any, share: Any, level: float = LEVEL) -> Any:
    """Half of a t interval; `share` is what is left of one run's variance, such as 1/n of a mean
    over n runs. Arrays go through.
    """
    return special.stdtrit(df, (1 + level) / 2) * np.sqrt(np.asarray(variance) * share)


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b between two rankings; none where one of them ranks nothing."""
    if len(first) < 2 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    orders = [np.sign(np.subtract.outer(ranks, ranks)) for ranks in (first, second)]
    pairs = [np.count_nonzero(order) / 2 for order in orders]
    tau = np.prod(orders, axis=0).sum() / 2 / np.sqrt(pairs[0]) / np.sqrt(pairs[1])
    return float(np.clip(tau, -1, 1))


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half."""
    kept = [v for v in values if np.isfinite(v)]
    low, high = len(kept) // 4, len(kept) - len(kept) // 4
    return float(np.partition(kept, (low, high - 1))[low:high].mean()) if kept else nan


def average_ranks(wide: pd.DataFrame, best: str = "high") -> pd.Series:
    """Average rank of every row over the columns in which all rows have a number (1 is best, ties
    share their mean rank).
    """
    complete = wide.dropna(axis="columns")
    if complete.shape[1] == 0:
        return pd.Series(nan, index=wide.index)
    return complete.rank(axis="index", ascending=best != "high").mean(axis="columns")


def against_leader(wide: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Every row's mean difference to one over columns (column, study), and how often two of so many
    equal rows are that far apart (Tukey).

    The leader is found in the same data, so a correction for the number of comparisons with it,
    such as Holm's, is not enough. Noise is what is left of scores without row and study, column by
    column: over so few blocks, no test of the signs alone could find a difference among so many
    rows.
    """
    gaps = wide.drop(index=leader).sub(wide.loc[leader], axis="columns")
    known = pooled(None, *(noise(part.T) for _, part in wide.T.groupby("column")))
    blocks = gaps.notna().sum(axis="columns")
    means = gaps.mean(axis="columns")
    told = (blocks >= FEWEST) & (known.df > 0)
    error = np.sqrt(known.variance / blocks.where(told))
    p_values = stats.studentized_range.sf(means.abs() / error, len(wide), known.df)
    return pd.DataFrame({"difference": means, "p": p_values, "blocks": blocks})


def noise(wide: pd.DataFrame) -> tuple[float, float]:
    """The variance of scores [row, study], without what rows and studies have in common, and its
    degrees of freedom.
    """
    rest = interaction(wide)
    rows, studies = rest.shape
    if min(rows, studies) < 2:
        return nan, 0
    df = (rows - 1) * (studies - 1)
    return float((rest**2).to_numpy().sum()) / df, df


def interaction(wide: pd.DataFrame) -> pd.DataFrame:
    """Scores of the rows that have one in every study, without the means of rows and studies."""
    complete = wide.dropna()
    rest = complete.sub(complete.mean(axis="columns"), axis="index")
    return rest - rest.mean(axis="index")


def paired_difference(first: pd.Series, second: pd.Series) -> tuple[float, float, int]:
    """Mean of first - second over the keys that both have, the p-value of a paired test, and how
    many pairs there are.

    Methods of one table share partition, initialisation and batches per seed, so their scores are
    paired by (column, seed). The test changes signs: all ways of doing so for few pairs, the t-test
    for many. It needs no normal law, and its p is never below 2 / 2^pairs, however equal the gaps
    are. Of fewer than three pairs there is no p.
    """
    both = pd.concat([first, second], axis=1, join="inner").dropna()
    gap = (both.iloc[:, 0] - both.iloc[:, 1]).to_numpy(dtype=float)
    if len(gap) < FEWEST:
        return (float(gap.mean()) if len(gap) else nan), nan, len(gap)
    return float(gap.mean()), _sign_test(gap), len(gap)


def _sign_test(gap: np.ndarray) -> float:
    least = 2.0 ** (1 - len(gap))
    if len(gap) > ENUMERATED:
        flat = float(gap.std(ddof=1)) <= 1e-9 * float(np.abs(gap).max())
        return (
            (least if gap.any() else 1.0)
            if flat
            else max(least, float(stats.ttest_1samp(gap, 0.0).pvalue))
        )
    sums = np.abs(_signs(len(gap)) @ gap)
    return float(np.mean(sums >= abs(gap.sum()) - 1e-9 * np.abs(gap).sum()))


@cache
def _signs(count: int) -> np.ndarray:
    """All ways of giving so many numbers a sign."""
    return np.array(list(product((1.0, -1.0), repeat=count)))


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values of several tests, adjusted so that any false one has at most the chance of one
    (Holm); NaN are no tests.
    """
    given = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(given), nan)
    order = [place for place in np.argsort(given) if isfinite(given[place])]
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * float(given[place])))
        adjusted[place] = highest
    return adjusted.tolist()
