"""The written rule that turns a published number and ours into one word."""

from __future__ import annotations

from enum import StrEnum
from math import hypot, isfinite, nan

POINTS = 1.0
NEAR_POINTS = 3.0
RELATIVE = 0.01
NEAR_RELATIVE = 0.03
FLOOR_POINTS = 1.0

RULE = (
    "A published number is a *match* when ours lies within twice the combined standard deviation (the root of the sum of squares of the "
    "printed one and ours), or within one point where no deviation is printed; *near* within three points; else *off*. It is *floor* when "
    "it lies within one point of what predicting each client's most frequent class gives, whatever ours is. It is *not comparable* when "
    "ours comes from a smaller scale than the paper's, and *missing* when there is no number of ours. Numbers that are not accuracies use "
    "1 % and 3 % of the published value for one and three points. Closed-form numbers are held to the printed digits at every scale."
)


class Verdict(StrEnum):
    """What became of a published number."""

    MATCH = "match"
    NEAR = "near"
    OFF = "off"
    FLOOR = "floor"
    OTHER_SCALE = "not comparable"
    MISSING = "missing"


ACCURACY_UNITS = frozenset({"%", "percent", "percentage points"})


def tolerances(published: float, published_std: float, std: float, unit: str) -> tuple[float, float]:
    """How far ours may lie away to be a match, and to be near."""
    accuracy = unit in ACCURACY_UNITS
    near = NEAR_POINTS if accuracy else NEAR_RELATIVE * abs(published)
    if isfinite(published_std):
        return 2 * hypot(published_std, std if isfinite(std) else 0.0), near
    return (POINTS if accuracy else RELATIVE * abs(published)), near


def judge(
    published: float,
    ours: float,
    *,
    scale: str,
    published_std: float = nan,
    std: float = nan,
    floor: float = nan,
    unit: str = "%",
    exact: float | None = None,
) -> Verdict:
    """The verdict on one published number; `exact` marks a closed-form one, and is how far printed digits may round it away."""
    if not isfinite(ours):
        return Verdict.MISSING
    slack = 1e-9  # both numbers were rounded to decimals, differences of decimals are not exact in binary
    distance = abs(ours - published)
    if exact is not None:
        return Verdict.MATCH if distance <= exact + slack else Verdict.OFF
    if scale != "paper":
        return Verdict.OTHER_SCALE
    if unit in ACCURACY_UNITS and isfinite(floor) and abs(published - floor) <= FLOOR_POINTS + slack:
        return Verdict.FLOOR
    match, near = tolerances(published, published_std, std, unit)
    if distance <= match + slack:
        return Verdict.MATCH
    return Verdict.NEAR if distance <= near + slack else Verdict.OFF
