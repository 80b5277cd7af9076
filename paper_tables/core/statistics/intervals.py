"""Student's t intervals, and the variances that they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from scipy import special

LEVEL = 0.95
MIN_RUNS = 3
"""Runs from which their mean is shown with an interval, and from which seeds decide a claim."""


@dataclass(frozen=True)
class Variance:
    """A variance between runs, and its degrees of freedom."""

    variance: float
    df: float


@dataclass(frozen=True)
class Spread:
    """Some runs in five numbers."""

    mean: float
    std: float
    """Standard deviation with ddof 1; NaN for a single run."""
    low: float
    high: float
    """95 % interval of the mean; NaN for fewer than three runs."""
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return mean, standard deviation and t-interval of the finite values."""
    finite = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    count = len(finite)
    if not count:
        return Spread(nan, nan, nan, nan, 0)
    mean, std = float(finite.mean()), float(finite.std(ddof=1)) if count > 1 else nan
    half = float(half_width(std**2, count - 1, 1 / count)) if count >= MIN_RUNS else nan
    return Spread(mean, std, mean - half, mean + half, count)


def half_width(variance: Any, df: Any, share: Any) -> Any:
    """Return half of a t-interval; `share` scales the variance of one run, such as 1/n for a mean
    over n runs. Arguments may be arrays.
    """
    return special.stdtrit(df, (1 + LEVEL) / 2) * np.sqrt(np.asarray(variance) * share)


def pooled(*variances: tuple[float, float]) -> Variance | None:
    """Return the common variance of several samples, (variance, degrees of freedom) each, weighted
    by degrees of freedom; None if there are none.
    """
    parts = [(variance, df) for variance, df in variances if df > 0 and isfinite(variance)]
    df = sum(df for _, df in parts)
    return Variance(sum(variance * df for variance, df in parts) / df, df) if df else None
