"""Statistics of ranks: how alike two orders are, and average ranks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

import pandas as pd
from scipy import stats


def kendall(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's tau-b between two rankings; None if one of them ranks nothing."""
    tau = float(stats.kendalltau(first, second).statistic) if len(first) > 1 else nan
    return tau if isfinite(tau) else None


def average_ranks(wide: pd.DataFrame) -> pd.Series:
    """Return the average rank of every row over the columns in which all rows have a number (1 is
    best, ties share their mean rank).
    """
    complete = wide.dropna(axis="columns")
    if complete.shape[1] == 0:
        return pd.Series(nan, index=wide.index)
    return complete.rank(axis="index", ascending=False).mean(axis="columns")
