"""Weighted sums of cells, paired by seed, and what they decide.

A contrast is estimated by a t-interval over the seeds that all of its cells have. A sentence on
several contrasts says that at least some of them are met.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

import numpy as np
import pandas as pd
from scipy import special

from repfl.paper_tables.core.statistics.intervals import LEVEL, MIN_RUNS, half_width

Cell = tuple[str, str]
"""A row and a column."""
SLACK = 1e-9
"""Decimals are not exact in binary."""


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of cells that is above a bound, or within a tolerance of it."""

    weights: Mapping[Cell, float]
    bound: float = 0.0
    near: bool = False
    """Whether the sum is stated as the bound, not as above it."""
    tolerance: float = 0.0
    """How far ours may fall short of the bound, or lie from it, and ..."""
    rounding: float = 0.0
    """... the same for printed numbers."""
    ties: bool = False
    """Whether equal printed numbers meet it; else they leave it open."""


@dataclass(frozen=True)
class Estimate:
    """A contrast in our runs."""

    value: float = nan
    low: float = nan
    high: float = nan
    """95 % interval; NaN below three common seeds."""
    seeds: int = 0
    p_met: float = 1.0
    """How probable such a value is at most if the contrast is not met, and ..."""
    p_not: float = 1.0
    """... if it is met; one below three common seeds."""
    margin: float = nan
    """How far inside what is stated the value lies; negative: outside."""
    contrast: Contrast | None = None

    @property
    def p_two_sided(self) -> float:
        """The p value of "the contrast is its bound"; NaN below three common seeds."""
        return min(1.0, 2 * min(self.p_met, self.p_not)) if isfinite(self.low) else nan


def by_seed(runs: pd.DataFrame) -> dict[Cell, np.ndarray]:
    """Return runs (row, column, seed, value) by cell: a value per seed of any cell, or NaN."""
    wide = runs.pivot(index="seed", columns=["row", "column"], values="value")
    cells = zip(*map(wide.columns.get_level_values, ("row", "column")), strict=True)
    return dict(zip(cells, wide.to_numpy().T, strict=True))


def estimate(contrast: Contrast, wide: Mapping[Cell, np.ndarray]) -> Estimate:
    """Return a contrast over the common seeds of its cells, from what `by_seed` returns."""
    if not contrast.weights.keys() <= wide.keys():
        return Estimate()
    columns = np.stack([wide[cell] for cell in contrast.weights], axis=1)
    values = columns @ np.array([*contrast.weights.values()])
    return estimate_from(contrast, values[np.isfinite(values)])


def estimate_from(contrast: Contrast, values: np.ndarray) -> Estimate:
    """Return a contrast from its values, one per common seed."""
    seeds = len(values)
    if not seeds:
        return Estimate()
    mean = float(values.mean())
    over = mean - (contrast.bound - contrast.tolerance)
    under = contrast.bound + contrast.tolerance - mean
    margin = min(over, under) if contrast.near else over
    if seeds < MIN_RUNS:
        return Estimate(mean, seeds=seeds, margin=margin, contrast=contrast)
    variance = float(values.var(ddof=1))
    half = float(half_width(variance, seeds - 1, 1 / seeds))
    error = sqrt(variance / seeds)
    sides = [over, under] if contrast.near else [over]
    p_met = max(_tail(side, error, seeds - 1) for side in sides)
    p_not = min(_tail(-side, error, seeds - 1) for side in sides)
    return Estimate(mean, mean - half, mean + half, seeds, p_met, p_not, margin, contrast)


def _tail(distance: float, error: float, df: int) -> float:
    """Return the one-sided p value of a distance above zero."""
    if not error:
        return 0.0 if distance > SLACK else 1.0
    return float(special.stdtr(df, -distance / error))


def p_at_least(p_values: Sequence[float], least: int) -> float:
    """Return the p value of "at least so many of these are met" (partial conjunction, Benjamini and
    Heller 2008): Bonferroni's for one of them, the largest for all of them.
    """
    return min(1.0, (len(p_values) - least + 1) * sorted(p_values)[least - 1])


@dataclass(frozen=True)
class Decision:
    """What our runs say of contrasts in groups, in each of which some have to be met."""

    holds: bool | None
    """None below three common seeds, or if the intervals leave it open."""
    deciding: Estimate
    """The estimate whose margin says whether the sentence is met: in each group the last one that
    is needed, of all groups the smallest.
    """
    met: int
    compared: int
    of: int
    """How many contrasts are met, have runs, and are stated."""


def decide(groups: Sequence[Sequence[Contrast]], least: int | None, runs: pd.DataFrame) -> Decision:
    """Decide whether in every group at least some contrasts are met (None: all of them)."""
    wide = by_seed(runs)
    met, failed, deciding = list[float](), list[float](), list[Estimate]()
    everything: list[Estimate] = []
    for group in groups:
        estimates = [estimate(each, wide) for each in group]
        needed = least or len(estimates)
        met.append(p_at_least([each.p_met for each in estimates], needed))
        failed.append(p_at_least([each.p_not for each in estimates], len(estimates) - needed + 1))
        ranked = sorted(estimates, key=lambda each: -_known(each.margin))
        deciding.append(ranked[needed - 1])
        everything += estimates
    limit = (1 - LEVEL) / 2
    holds = True if max(met, default=1.0) <= limit else None
    if p_at_least(failed or [1.0], 1) <= limit:
        holds = False
    compared = [each for each in everything if each.seeds]
    known = [each for each in deciding if each.seeds] or compared or [Estimate()]
    return Decision(
        holds,
        min(known, key=lambda each: _known(each.margin)),
        sum(each.margin > -SLACK for each in compared),
        len(compared),
        len(everything),
    )


def _known(margin: float) -> float:
    return margin if isfinite(margin) else -inf


def printed_answer(
    groups: Sequence[Sequence[Contrast]], least: int | None, cells: Mapping[Cell, float]
) -> bool | None:
    """Return whether printed numbers meet what is stated; None if too many are missing or tie."""
    answers: list[bool | None] = []
    for group in groups:
        met = [_met_in_print(each, cells) for each in group]
        needed = least or len(met)
        if met.count(True) >= needed:
            answers.append(True)
        else:
            answers.append(False if len(met) - met.count(False) < needed else None)
    return False if False in answers else True if answers and None not in answers else None


def _met_in_print(contrast: Contrast, cells: Mapping[Cell, float]) -> bool | None:
    value = sum(weight * cells.get(cell, nan) for cell, weight in contrast.weights.items())
    if not isfinite(value):
        return None
    over = round(value - contrast.bound, 9)
    if contrast.near:
        return abs(over) <= contrast.rounding
    if over == 0 and not contrast.rounding:
        return True if contrast.ties else None
    return over + contrast.rounding > 0
