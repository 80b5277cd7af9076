"""Statistics over seeds, clients and cells, as pure functions of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

Values = Sequence[float] | np.ndarray


class Spread(NamedTuple):
    """A sample in three numbers; the standard deviation has ddof 1 and is NaN for a single value."""

    mean: float
    std: float
    size: int


def spread(values: Values) -> Spread:
    """Mean, standard deviation and count."""
    kept = np.asarray(values, dtype=float)
    if kept.size == 0:
        return Spread(np.nan, np.nan, 0)
    return Spread(float(kept.mean()), float(kept.std(ddof=1)) if kept.size > 1 else np.nan, kept.size)


def interval(values: Values, level: float = 0.95, resamples: int = 2000) -> tuple[float, float]:
    """Bootstrap percentile interval of the mean; the same values, in any order, always give the same interval."""
    kept = np.sort(np.asarray(values, dtype=float))
    if kept.size < 2 or np.ptp(kept) == 0:
        mean = float(kept.mean()) if kept.size else np.nan
        return mean, mean
    rng = np.random.Generator(np.random.Philox(0))
    found = stats.bootstrap((kept,), np.mean, n_resamples=resamples, confidence_level=level, method="percentile", rng=rng)
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def bottom_decile(values: Values) -> float:
    """Mean of the worst tenth, of one value at least."""
    kept = np.sort(np.asarray(values, dtype=float))
    return float(kept[: max(1, kept.size // 10)].mean()) if kept.size else np.nan


def interquartile_mean(values: Values) -> float:
    """Mean of the middle half."""
    kept = np.asarray(values, dtype=float)
    return float(stats.trim_mean(kept, 0.25)) if kept.size else np.nan


class Paired(NamedTuple):
    """First minus second over the keys that both have, with the p-value of a paired t-test (NaN for fewer than two pairs)."""

    difference: float
    p_value: float
    pairs: int


def paired(first: Mapping[object, float], second: Mapping[object, float]) -> Paired:
    """Compare two methods that share partition, initialisation and batches per key, such as (column, seed)."""
    gaps = np.array([first[key] - second[key] for key in first if key in second], dtype=float)
    if gaps.size < 2:
        return Paired(float(gaps.mean()) if gaps.size else np.nan, np.nan, gaps.size)
    if np.ptp(gaps) == 0:
        return Paired(float(gaps[0]), 1.0 if gaps[0] == 0 else 0.0, gaps.size)
    return Paired(float(gaps.mean()), float(stats.ttest_1samp(gaps, 0.0).pvalue), gaps.size)


def average_ranks(table: np.ndarray) -> np.ndarray:
    """Average rank of every row [rows] over the columns of [rows, columns] in which no value is missing; 1 is best, ties share."""
    table = np.asarray(table, dtype=float)
    complete = table[:, ~np.isnan(table).any(axis=0)]
    if complete.shape[1] == 0:
        return np.full(table.shape[0], np.nan)
    ranks: np.ndarray = stats.rankdata(-complete, axis=0).mean(axis=1)
    return ranks
