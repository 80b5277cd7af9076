"""The verdict on a published number.

Ours and the printed number are means over runs. The verdict comes from the 95 % interval for the
difference ours - printed: Student's, from one variance between runs. Our own seeds and the noise
model, which knows our own seeds alone, say how large it is; a printed ± adds to them only as far as
its paper's `Printing` trusts it. `bench/STATISTICS.md` has the rule and how often it errs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite, nan, sqrt
from typing import Any

import numpy as np
import pandas as pd

from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.evidence import RULES
from repfl.paper_tables.core.statistics.intervals import MIN_RUNS, Prior, half_width, pooled

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
    " that are computed exactly are *reproduced* if they have the printed digits, else they differ."
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


class Reading(StrEnum):
    """How a printed ± is interpreted."""

    OWN = "printed ± left out"
    STATED = "printed ± as stated, a spread over the runs"
    REPEATED = "printed ± as one run beside equal ones"


@dataclass(frozen=True)
class Runs:
    """One side of a comparison: a mean over `count` runs, and their standard deviation (n - 1; NaN
    if unknown).
    """

    mean: float
    std: float = nan
    count: float = 1
    """A mean of unequal weights counts as fewer runs."""
    df: float | None = None
    """Degrees of freedom of the deviation; None: one fewer than runs."""

    @property
    def variance_and_df(self) -> tuple[float, float]:
        """Variance and degrees of freedom."""
        df = self.count - 1.0 if self.df is None else self.df
        return (self.std**2, df) if isfinite(self.std) else (nan, 0.0)


@dataclass(frozen=True)
class Printing:
    """What a paper says about the runs behind a table's accuracies."""

    runs: int = 1
    """Runs behind each mean; one, which gives the widest interval, if the paper does not say."""
    rule: str = ""
    """The rule by which it picked a round, by its text or code: last, max or best-val; empty:
    unknown.
    """
    doubt: str = ""
    """What speaks against reading its ± as a spread over these runs. A doubted ± enters no verdict,
    and the mean counts as one run.
    """
    repeated: bool = False
    """Whether one run beside equal ones is a documented other reading."""

    def __post_init__(self) -> None:
        if self.rule and self.rule not in RULES:
            valid = ", ".join(RULES)
            raise PaperError(f"Printing(rule={self.rule!r}) is not valid; valid: {valid}")

    @property
    def readings(self) -> dict[Reading, bool]:
        """The readings that are reported, and which one the verdicts use."""
        stated = {} if self.runs == 1 else {Reading.STATED: not self.doubt}
        other = {Reading.REPEATED: False} if self.repeated else {}
        return {Reading.OWN: not stated.get(Reading.STATED, False)} | stated | other

    def side(self, mean: float, printed: float, reading: Reading | None = None) -> Runs:
        """Return a printed mean and ± as runs, as the verdicts read it or by another reading. No
        paper says what its deviation divides by; it is widened as one that divides by n, NumPy's
        way. A ± of 0.00 is none: a single run, or one seed repeated.
        """
        reading = reading or next(r for r, used in self.readings.items() if used)
        n = self.runs
        if reading == Reading.OWN:
            return Runs(mean, count=1 if self.doubt else n)
        if not printed > 0:
            return Runs(mean, count=n if reading == Reading.STATED else 1)
        if reading == Reading.STATED:
            return Runs(mean, printed * sqrt(n / (n - 1)), n)
        # n - 1 equal runs and one other: two values, of weights (n - 1) / n and 1 / n
        return Runs(mean, printed * n / sqrt(2 * (n - 1)), n**2 / ((n - 1) ** 2 + 1), df=1)


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


def compare(printed: Runs, ours: Runs, expected: Prior | None, margin: float = MARGIN) -> Judgement:
    """Return the verdict on a mean over runs."""
    sources = {"our seeds": ours.variance_and_df, "the printed ±": printed.variance_and_df}
    if expected is None and sum(df for _, df in sources.values()) < MIN_RUNS - 1:
        return Judgement(Verdict.UNDECIDED, basis="too few runs on either side to know their noise")
    noise = pooled(expected, *sources.values())
    gap = ours.mean - printed.mean
    half = float(half_width(noise.variance, noise.df, 1 / ours.count + 1 / printed.count))
    counts = f"{_runs(ours.count)} of ours, {_runs(printed.count)} of theirs"
    named = [name for name, (_, df) in sources.items() if df > 0]
    named += ["the noise model"] if expected else []
    basis = f"{counts}; one run deviates by about {sqrt(noise.variance):.2f} (from"
    basis += f" {' and '.join(named)}; {noise.df:.2g} degrees of freedom)"
    low, high = gap - half, gap + half
    return Judgement(Verdict(str(verdicts_of(low, high, margin))), low, high, basis)


def _runs(count: float) -> str:
    return "1 run" if count == 1 else f"{count:g} runs"


def judge(
    printed: Runs,
    ours: Runs,
    *,
    kind: Kind = Kind.TRAINED,
    scale: str = "paper",
    unit: str = "%",
    expected: Prior | None = None,
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
    return compare(printed, ours, expected, margin)


def at_floor(printed: float, floor: float) -> bool:
    """Return whether a printed accuracy is not a point above what a constant prediction gives."""
    return isfinite(floor) and printed <= floor + FLOOR_POINTS + SLACK


# -- what verdicts depend on and what they tell ----------------------------------------------------


def readings(frames: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Count the verdicts on accuracies under each reading of the printed ±: one line per reading,
    `used` for how many numbers the verdicts use it. A number to which a reading does not apply
    keeps its verdict.
    """
    cells = [
        (cell["verdict"], cell["readings"])
        for frame in frames
        for cell in frame.to_dict("records")
        if cell["verdict"] in (Verdict.REPRODUCED, Verdict.DIFFERS, Verdict.UNDECIDED)
        and cell["readings"]
    ]
    lines = {}
    for reading in Reading:
        if any(reading in each for _, each in cells):
            counts = Counter(each.get(reading, (verdict, False))[0] for verdict, each in cells)
            used = sum(each.get(reading, ("", False))[1] for _, each in cells)
            lines[str(reading)] = {
                **{str(v): counts[v] for v in Verdict if v not in UNJUDGED},
                "used": used,
            }
    return pd.DataFrame.from_dict(lines, orient="index")


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
            ours["ours"].to_numpy(dtype=float), cells["published"].to_numpy(dtype=float)
        )
        others = np.not_equal.outer(ours["row"].to_numpy(), cells["row"].to_numpy())
        half = (ours["gap_high"] - ours["gap_low"]).to_numpy(dtype=float)[:, None] / 2
        lines[column] = {
            "pairs": int(others.sum()),
            "within the margin": int((others & (np.abs(gaps) <= MARGIN + SLACK)).sum()),
            "reproduced": int(
                (others & (verdicts_of(gaps - half, gaps + half) == str(Verdict.REPRODUCED))).sum()
            ),
        }
    return pd.DataFrame.from_dict(lines, orient="index")
