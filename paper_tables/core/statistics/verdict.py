"""The verdict on a published number.

Ours and the printed number are means over runs. The verdict comes from the 95 % interval for the
difference ours - printed: Student's, from one variance between runs. The seeds of the cell say how
large it is, and a printed ± if the paper says that it is their standard deviation; a single run
borrows the noise of our other cells. `bench/STATISTICS.md` has the rule and how often it errs.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.statistics.intervals import Variance, half_width, pooled

RULES = ("last", "max", "best-val")
"""Rules by which a recipe chooses the round that it reports."""
MARGIN = 1.0
"""Points within which two accuracies count as equal."""
RELATIVE = 0.01
"""The same for measured costs, as a share of the printed number."""
FLOOR_POINTS = 1.0
SLACK = 1e-9
"""Decimals are not exact in binary."""
ACCURACY_UNITS = frozenset({"%", "percent", "percentage points"})


class Verdict(StrEnum):
    """The verdict on a published number."""

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    UNDECIDED = "undecided"
    OTHER_SCALE = "not comparable"
    MISSING = "not measured"


UNJUDGED = frozenset({Verdict.OTHER_SCALE, Verdict.MISSING})
RULE = (
    "The verdict comes from the 95 % interval for ours minus the printed mean, and a margin of one"
    " point to either side: *reproduced* if the interval lies inside the margin, *differs* if it"
    " lies wholly outside, *undecided* otherwise, also if there are too few runs for an interval."
    " *Not comparable*: ours is of a smaller scale, another rule or other data. *Not measured*:"
    " there is no number of ours. Measured costs have a margin of 1 % of the printed value. Numbers"
    " that are computed exactly *match* if they have the printed digits, else they differ."
    " A mark beside the verdict says that the printed accuracy is not above a constant prediction,"
    " or that both are the best round on the test images."
)


class Kind(StrEnum):
    """The kind of a published number. Kinds are counted separately."""

    TRAINED = "trained accuracy"
    LOGGED = "log value"
    COST = "measured cost"
    """Bytes, operations or rounds that depend on training."""
    CLOSED = "computed exactly"
    """Counts, bytes and operations that follow from sizes alone."""
    LOOKUP = "metadata"
    """Copied from a data set's description."""
    SETTING = "setting"
    """An input of the runs, which ours take over; it is no result and is not counted."""


EXACT = frozenset({Kind.CLOSED, Kind.LOOKUP, Kind.SETTING})


@dataclass(frozen=True)
class Runs:
    """One side of a comparison: a mean over `count` runs, and their standard deviation (n - 1; NaN
    if unknown).
    """

    mean: float
    std: float = nan
    count: int = 1

    @property
    def variance_and_df(self) -> tuple[float, float]:
        """Variance and degrees of freedom; equal runs do not tell how noisy they are."""
        return (self.std**2, self.count - 1.0) if self.std > 0 else (nan, 0.0)


@dataclass(frozen=True)
class Printing:
    """What a paper says about the runs behind a table's accuracies."""

    runs: int = 1
    """Independent runs behind each mean; one, which gives the widest interval, if the paper does
    not say, or if something speaks against what it says.
    """
    deviation: bool = False
    """Whether the paper says that its ± is the standard deviation over these runs. Any other ±
    enters no verdict.
    """
    rule: str = ""
    """The rule by which it picked a round, by its text or code: last, max or best-val; empty:
    unknown.
    """

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            valid = ", ".join(RULES)
            raise PaperError(f"Printing(rule={self.rule!r}) is not valid; valid: {valid}")

    def side(self, mean: float, printed: float) -> Runs:
        """Return a printed mean and ± as runs. No paper says what its deviation divides by, so it
        is widened as one that divides by n, NumPy's way.
        """
        n = self.runs
        widened = printed * sqrt(n / (n - 1)) if self.deviation and n > 1 else nan
        return Runs(mean, widened, n)


@dataclass(frozen=True)
class Judgement:
    """A verdict, the interval for the difference, and what the interval rests on."""

    verdict: Verdict
    low: float = nan
    high: float = nan
    basis: str = ""


def verdicts_of(low: Any, high: Any, margin: Any = MARGIN) -> np.ndarray:
    """Return the verdicts on differences with these intervals."""
    low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    inside = np.maximum(np.abs(low), np.abs(high)) <= margin + SLACK
    outside = (low > margin + SLACK) | (high < -margin - SLACK)
    verdicts = str(Verdict.REPRODUCED), str(Verdict.DIFFERS)
    return np.select([inside, outside], verdicts, str(Verdict.UNDECIDED))


def compare(
    printed: Runs, ours: Runs, borrowed: Variance | None, margin: float = MARGIN
) -> Judgement:
    """Return the verdict on a mean over runs. Both sides share one variance between runs; it is
    `borrowed` from other cells if neither side shows any.
    """
    sources = {"our seeds": ours.variance_and_df, "the printed ±": printed.variance_and_df}
    known = [name for name, (_, df) in sources.items() if df > 0] or ["our other cells"]
    noise = pooled(*sources.values()) or borrowed
    if noise is None:
        return Judgement(Verdict.UNDECIDED, basis="too few runs on either side to know their noise")
    gap = ours.mean - printed.mean
    half = float(half_width(noise.variance, noise.df, 1 / ours.count + 1 / printed.count))
    basis = (
        f"{_runs(ours.count)} of ours, {_runs(printed.count)} of theirs; one run deviates by about"
        f" {sqrt(noise.variance):.2f} (from {' and '.join(known)};"
        f" {noise.df:.2g} degree{'' if noise.df == 1 else 's'} of freedom)"
    )
    low, high = gap - half, gap + half
    return Judgement(Verdict(str(verdicts_of(low, high, margin))), low, high, basis)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def judge(
    printed: Runs,
    ours: Runs,
    *,
    kind: Kind = Kind.TRAINED,
    scale: str = "paper",
    unit: str = "%",
    borrowed: Variance | None = None,
    rounding: float = 0.0,
    why_incomparable: str = "",
) -> Judgement:
    """Return the verdict on one published number.

    `rounding` is how far printed digits may round a number away that needs no run;
    `why_incomparable` says why the two sides are not.
    """
    if not isfinite(ours.mean):
        return Judgement(Verdict.MISSING)
    if kind in EXACT and not why_incomparable:
        same = abs(ours.mean - printed.mean) <= rounding + SLACK
        verdict = Verdict.REPRODUCED if same else Verdict.DIFFERS
        return Judgement(verdict, basis="held to the printed digits")
    if scale != "paper" or why_incomparable:
        return Judgement(Verdict.OTHER_SCALE, basis=why_incomparable or f"{scale} scale")
    margin = MARGIN if unit in ACCURACY_UNITS else RELATIVE * abs(printed.mean)
    return compare(printed, ours, borrowed, margin)


def at_floor(printed: float, floor: float) -> bool:
    """Return whether a printed accuracy is not a point above what a constant prediction gives."""
    return isfinite(floor) and printed <= floor + FLOOR_POINTS + SLACK


def discrimination(frame: pd.DataFrame) -> pd.DataFrame:
    """Count, per column, the pairs of ours of one row and the printed number of another: all
    `pairs`, those within the margin, and those that would be called reproduced with the interval of
    ours against its own number.
    """
    lines = {}
    judged = frame["verdict"].isin([str(v) for v in Verdict if v not in UNJUDGED])
    for column, cells in frame[frame["kind"] == Kind.TRAINED].groupby("column", sort=False):
        ours = cells[judged.reindex(cells.index)]
        gaps = np.subtract.outer(
            ours["ours"].to_numpy(dtype=float), cells["printed"].to_numpy(dtype=float)
        )
        others = np.not_equal.outer(ours["row"].to_numpy(), cells["row"].to_numpy())
        half = (ours["difference_high"] - ours["difference_low"]).to_numpy(dtype=float)[:, None] / 2
        lines[column] = {
            "pairs": int(others.sum()),
            "within the margin": int((others & (np.abs(gaps) <= MARGIN + SLACK)).sum()),
            "reproduced": int(
                (others & (verdicts_of(gaps - half, gaps + half) == str(Verdict.REPRODUCED))).sum()
            ),
        }
    return pd.DataFrame.from_dict(lines, orient="index")
