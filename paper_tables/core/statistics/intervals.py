"""The statistics that tables print, as pure functions of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from scipy import optimize, special

LEVEL = 0.95
MIN_RUNS = 3
"""Runs from which their standard deviation alone gives an interval."""
DEVIATIONS = np.linspace(-8.0, 8.0, 401)
"""Grid on which a posterior is evaluated, in standard deviations of its prior."""


@dataclass(frozen=True)
class Prior:
    """Prior of the logarithm of a variance between runs, in squared points: a normal distribution
    of this mean and variance.
    """

    mean: float
    spread: float


@dataclass(frozen=True)
class Variance:
    """A variance between runs, and its degrees of freedom."""

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


def spread(values: Sequence[float], expected: Prior | None = None) -> Spread:
    """Return mean, deviation and interval of the finite values, given a prior of their variance."""
    finite = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    if not len(finite):
        return Spread(nan, nan, nan, nan, 0)
    mean, std = float(finite.mean()), float(finite.std(ddof=1)) if len(finite) > 1 else nan
    half = df = nan
    if expected is not None or len(finite) >= MIN_RUNS:
        noise = pooled(expected, (std**2, len(finite) - 1))
        half, df = float(half_width(noise.variance, noise.df, 1 / len(finite))), noise.df
    return Spread(mean, std, mean - half, mean + half, len(finite), df)


def pooled(prior: Prior | None, *variances: tuple[float, float]) -> Variance:
    """Return one variance from several (variance, degrees of freedom), weighted by degrees of
    freedom and combined with the prior if there is one.
    """
    parts = [(variance, df) for variance, df in variances if df > 0 and isfinite(variance)]
    df = sum(df for _, df in parts)
    if prior is None:
        return Variance(sum(variance * df for variance, df in parts) / df if df else nan, df)
    grid = prior.mean + np.sqrt(prior.spread) * DEVIATIONS
    squares = sum(variance * df for variance, df in parts)
    share = special.softmax(-(DEVIATIONS**2 + df * grid + squares * np.exp(-grid)) / 2)
    mean = float(share @ grid)
    half = _inverse_trigamma(float(share @ (grid - mean) ** 2))
    return Variance(float(np.exp(mean - np.log(half) + special.digamma(half))), 2 * half)


def _inverse_trigamma(value: float) -> float:
    """Return half of the degrees of freedom of a scaled inverse chi-square distribution whose
    logarithm has this variance.
    """
    return float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - value, 1e-2, 1e4))


def half_width(variance: Any, df: Any, share: Any) -> Any:
    """Return half of a t interval; `share` scales the variance of one run, such as 1/n for a mean
    over n runs. Arguments may be arrays.
    """
    return special.stdtrit(df, (1 + LEVEL) / 2) * np.sqrt(np.asarray(variance) * share)
