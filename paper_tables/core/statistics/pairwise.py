"""Comparisons of all pairs of rows, each pair with a variance of its own (Games-Howell).

Rows are compared within studies, which share partition, initial values and batches. A row's
variance is of what is left of its scores without row and study, or the mean over rows if that is
larger.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from math import nan, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from repfl.paper_tables.core.statistics.intervals import LEVEL, half_width

MIN_BLOCKS = 3
TINY = 1e-12
"""A variance instead of zero, if all scores are equal."""


@dataclass(frozen=True)
class Pairs:
    """The variances of rows, and how many blocks their means are over."""

    variances: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["variance", "df"], dtype=float)
    )
    blocks: int = 0

    @property
    def half_widths(self) -> pd.Series:
        """Half of the 95 % interval of each row's mean, without effects common to all rows."""
        variances = self.variances
        widths = half_width(variances["variance"], variances["df"], 1 / max(1, self.blocks))
        return pd.Series(widths, index=variances.index, dtype=float)

    def error(self, first: str, second: str) -> tuple[float, float]:
        """Return the standard error of a difference of means and its degrees of freedom (Welch),
        NaN if they are unknown.
        """
        if not {first, second} <= set(self.variances.index):
            return nan, nan
        variance, df = (self.variances.loc[[first, second], name] for name in ("variance", "df"))
        total = float(variance.sum())
        squared = float((variance**2 / df).sum())
        return sqrt(total / self.blocks), total**2 / squared if squared else float(df.min())

    def critical_difference(self, first: str, second: str) -> float:
        """Return how far the means of two rows must lie from each other to differ significantly,
        whichever pair one looks at: half of their simultaneous 95 % interval.
        """
        error, df = self.error(first, second)
        # whole degrees of freedom, rounded down, since each quantile takes long
        return (
            nan
            if np.isnan(error)
            else studentized_range(len(self.variances), int(df)) * error / sqrt(2)
        )

    def p(self, first: str, second: str, gap: float) -> float:
        """Return the probability that two of as many equal rows differ by at least this gap."""
        error, df = self.error(first, second)
        if np.isnan(error) or np.isnan(gap):
            return nan
        ratio = abs(gap) / error * sqrt(2) if error else np.inf * abs(gap)
        return float(stats.studentized_range.sf(ratio, len(self.variances), df))


@cache
def studentized_range(rows: int, df: float) -> float:
    """Return how many standard errors lie between the best and the worst of equal rows."""
    return float(stats.studentized_range.ppf(LEVEL, rows, max(1, df)))


def interaction(wide: pd.DataFrame) -> pd.DataFrame:
    """Return scores [row, study] of complete rows without the means of rows and studies."""
    complete = wide.dropna()
    rest = complete.sub(complete.mean(axis="columns"), axis="index")
    return rest - rest.mean(axis="index")


def pairs(parts: Iterable[pd.DataFrame]) -> Pairs:
    """Return the variances of rows from scores [row, study] of one or several columns."""
    squares, df = pd.Series(dtype=float), pd.Series(dtype=float)
    studies = 0
    for wide in parts:
        rest = interaction(wide)
        rows, count = rest.shape
        if min(rows, count) > 1:
            studies += count
            squares = squares.add((rest**2).sum(axis="columns") * rows / (rows - 1), fill_value=0.0)
            df = df.add(pd.Series(float(count - 1), index=rest.index), fill_value=0.0)
    return Pairs(floored(squares / df, df), studies) if len(df) else Pairs()


def floored(variances: pd.Series, df: pd.Series) -> pd.DataFrame:
    """Return each row's variance and degrees of freedom: its own, or the mean of all rows if that
    is larger. Of many rows with few studies, some look quiet by chance alone.
    """
    variances = variances.clip(lower=TINY)
    squares = variances * df
    mean = float(squares.sum() / df.sum())
    mean_df = float(squares.sum() ** 2 / (squares * variances).sum())  # Satterthwaite's
    loud = variances > mean
    return pd.DataFrame(
        {"variance": variances.clip(lower=mean), "df": df.where(loud, df.clip(lower=mean_df))}
    )


def against_leader(wide: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Return every row's mean difference to one over columns (column, study), and its p value.

    The leader is chosen from the same data, so a correction for the number of comparisons with it,
    such as Holm's, is not enough: p is for all pairs.
    """
    gaps = wide.drop(index=leader).sub(wide.loc[leader], axis="columns")
    blocks, means = gaps.notna().sum(axis="columns"), gaps.mean(axis="columns")
    row_pairs = pairs(part.T for _, part in wide.T.groupby("column"))
    p_values = [
        Pairs(row_pairs.variances, count).p(str(name), leader, gap) if count >= MIN_BLOCKS else nan
        for name, gap, count in zip(means.index, means, blocks, strict=True)
    ]
    return pd.DataFrame({"difference": means, "p": p_values, "blocks": blocks})
