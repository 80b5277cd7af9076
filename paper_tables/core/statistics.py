"""The statistics that tables print, as pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
import pandas as pd
from scipy import stats

RESAMPLES = 2000


@dataclass(frozen=True)
class Spread:
    """A sample of seeds in four numbers."""

    mean: float
    std: float
    """Standard deviation with ddof 1; NaN for a single seed."""
    low: float
    high: float
    """95 % bootstrap interval of the mean; NaN for fewer than three seeds."""
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Mean, deviation and bootstrap interval of the finite values."""
    kept = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    if not len(kept):
        return Spread(nan, nan, nan, nan, 0)
    std = float(kept.std(ddof=1)) if len(kept) > 1 else nan
    low, high = bootstrap(kept) if len(kept) > 2 else (nan, nan)
    return Spread(float(kept.mean()), std, low, high, len(kept))


def bootstrap(values: Sequence[float] | np.ndarray, level: float = 0.95) -> tuple[float, float]:
    """Percentile interval of the mean; the same values always give the same interval."""
    kept = np.sort(np.asarray(values, dtype=float))
    if len(kept) < 2 or np.ptp(kept) == 0:
        return float(kept.mean()), float(kept.mean())
    found = stats.bootstrap(
        (kept,), np.mean, n_resamples=RESAMPLES, confidence_level=level, method="percentile", rng=np.random.Generator(np.random.Philox(0))
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Kendall's tau-b between two rankings; none where one of them ranks nothing."""
    if len(first) < 2 or len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(stats.kendalltau(first, second).statistic)


def interquartile_mean(values: Sequence[float]) -> float:
    """The mean of the middle half."""
    kept = [v for v in values if np.isfinite(v)]
    return float(stats.trim_mean(kept, 0.25)) if kept else nan


def average_ranks(wide: pd.DataFrame, best: str = "high") -> pd.Series:
    """Average rank of every row over the columns in which all rows have a number (1 is best, ties share their mean rank)."""
    complete = wide.dropna(axis="columns")
    if complete.shape[1] == 0:
        return pd.Series(nan, index=wide.index)
    return complete.rank(axis="index", ascending=best != "high").mean(axis="columns")


def paired_difference(first: pd.Series, second: pd.Series) -> tuple[float, float, int]:
    """Mean of first - second over the keys that both have, the p-value of a paired t-test, and how many pairs there are.

    Methods of one table share partition, initialisation and batches per seed, so their scores are paired by (column, seed).
    """
    both = pd.concat([first, second], axis=1, join="inner").dropna()
    gap = both.iloc[:, 0] - both.iloc[:, 1]
    if len(gap) < 2:
        return (float(gap.mean()) if len(gap) else nan), nan, len(gap)
    if float(gap.std(ddof=1)) == 0.0:
        return float(gap.mean()), (1.0 if float(gap.iloc[0]) == 0.0 else 0.0), len(gap)
    return float(gap.mean()), float(stats.ttest_1samp(gap, 0.0).pvalue), len(gap)
