"""What became of a published number: a word read off an interval, and what kind of number it is.

Ours and the printed number are both means over runs. The interval is Student's, for the difference
ours - printed, from one variance between runs (`statistics.pooled`): our seeds, the printed
deviation and the noise model each add what they know, weighted by their degrees of freedom. A
number that needs no run is held to its printed digits. `bench/STATISTICS.md` tells why, and how
often it errs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np

from repfl.paper_tables.core.statistics import FEWEST, Expected, half_width, pooled

MARGIN = 1.0
"""Points by which two accuracies may differ and still tell the same."""
RELATIVE = 0.01
"""Likewise for measured costs, as a share of the printed number."""
FLOOR_POINTS = 1.0
SLACK = (
    1e-9  # numbers were rounded to decimals, and differences of decimals are not exact in binary
)
ACCURACY_UNITS = frozenset({"%", "percent", "percentage points"})


class Verdict(StrEnum):
    """What became of a published number."""

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    OTHER_SCALE = "not comparable"
    MISSING = "not measured"


UNJUDGED = frozenset({Verdict.OTHER_SCALE, Verdict.MISSING})


class Kind(StrEnum):
    """What kind of number a published one is. Kinds are counted apart."""

    TRAINED = "trained accuracy"
    LOGGED = "log value"
    COST = "measured cost"
    """Bytes, operations or rounds that depend on training."""
    CLOSED = "closed form"
    """Counts, bytes and operations that follow from sizes alone."""
    LOOKUP = "look-up"
    """Copied from a configuration or a data set's description."""
    TEXT = "sentence"
    """Stated in a sentence only, and held against ours there."""


EXACT = frozenset({Kind.CLOSED, Kind.LOOKUP})
RULE = (
    "The verdict comes from the 95 % interval for ours minus the printed mean, and a margin of one"
    " point to either side: *reproduced* if the interval lies inside the margin, *differs* if it"
    " lies wholly outside, *undecided* otherwise, also if there are too few runs for an interval."
    " *Not comparable*: ours is of a smaller scale, another rule or other data. *Not measured*:"
    " there is no number of ours. Measured costs have a margin of 1 % of the printed value. Numbers"
    " that are computed exactly are *reproduced* if they have the printed digits, else they differ."
    " A mark beside the verdict says that the printed accuracy is not above a constant prediction,"
    " or that both are the best round on the test images."
)


@dataclass(frozen=True)
class Runs:
    """One side of a comparison: a mean over so many runs, and their deviation (n - 1; NaN where it
    is not known).
    """

    mean: float
    std: float = nan
    count: int = 1

    @property
    def known(self) -> tuple[float, float]:
        """Variance and degrees of freedom."""
        return (self.std**2, self.count - 1.0) if isfinite(self.std) else (nan, 0.0)


@dataclass(frozen=True)
class Judgement:
    """A verdict, the interval for the difference that it was read off, and what the interval rests
    on.
    """

    verdict: Verdict
    low: float = nan
    high: float = nan
    basis: str = ""


def words(low: Any, high: Any, margin: Any = MARGIN) -> np.ndarray:
    """The verdicts of many intervals."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    reach = np.maximum(np.abs(low), np.abs(high)) - SLACK
    choices = {
        Verdict.REPRODUCED: reach <= margin,
        Verdict.DIFFERS: (low > margin + SLACK) | (high < -margin - SLACK),
    }
    return np.select(
        list(choices.values()), [str(verdict) for verdict in choices], str(Verdict.UNDECIDED)
    )


def compare(
    printed: Runs, ours: Runs, expected: Expected | None, margin: float = MARGIN
) -> Judgement:
    """The verdict on a mean over runs."""
    sources = {"our seeds": ours.known, "the printed deviation": printed.known}
    told = {name: df for name, (_, df) in sources.items() if df > 0} | (
        {"the noise model": expected.df} if expected else {}
    )
    if sum(told.values()) < (1 if expected else FEWEST - 1):
        return Judgement(Verdict.UNDECIDED, basis="too few runs on either side to know their noise")
    known = pooled(expected, *sources.values())
    gap = ours.mean - printed.mean
    half = float(half_width(known.variance, known.df, 1 / ours.count + 1 / printed.count))
    counts = f"{_runs(ours.count)} of ours, {_runs(printed.count)} of theirs"
    weights = ", ".join(f"{df:.2g} from {name}" for name, df in told.items())
    basis = f"{counts}; deviation of a run {sqrt(known.variance):.2f}, degrees of freedom {weights}"
    return Judgement(
        Verdict(str(words(gap - half, gap + half, margin))), gap - half, gap + half, basis
    )


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def judge(
    printed: Runs,
    ours: Runs,
    *,
    kind: Kind = Kind.TRAINED,
    scale: str = "paper",
    unit: str = "%",
    expected: Expected | None = None,
    rounding: float = 0.0,
    apart: str = "",
) -> Judgement:
    """The verdict on one published number.

    `rounding` is how far printed digits may round a number away that needs no run; `apart` says why
    the two sides are not comparable.
    """
    if not isfinite(ours.mean):
        return Judgement(Verdict.MISSING)
    if kind in EXACT and not apart:
        same = abs(ours.mean - printed.mean) <= rounding + SLACK
        return Judgement(
            Verdict.REPRODUCED if same else Verdict.DIFFERS, basis="held to the printed digits"
        )
    if scale != "paper" or apart:
        return Judgement(Verdict.OTHER_SCALE, basis=apart or f"{scale} scale")
    return compare(
        printed, ours, expected, MARGIN if unit in ACCURACY_UNITS else RELATIVE * abs(printed.mean)
    )


def at_floor(printed: float, floor: float) -> bool:
    """Whether a printed accuracy is not above what a constant prediction gives, by more than a
    point.
    """
    return isfinite(floor) and printed <= floor + FLOOR_POINTS + SLACK
