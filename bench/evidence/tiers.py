"""How well a measured number is founded: *measured* by one contributor on one platform;
*recomputed*, to the bit, by a later run; *confirmed* by another contributor or platform within the
noise of a run.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import sqrt
from statistics import variance

from repfl.bench.evidence.lines import Line
from repfl.bench.evidence.measured import Measured

UNKNOWN = 0.01
"""The deviation of a run where too few seeds tell: one point of accuracy."""
LEAST = 3
"""Degrees of freedom from which on the seeds tell."""


class Tier(StrEnum):
    MEASURED = "measured"
    RECOMPUTED = "recomputed"
    CONFIRMED = "confirmed"


def noise(lines: Iterable[Line]) -> float:
    """The deviation of a run over seeds, pooled over all cells that have several."""
    groups: dict[tuple[str, ...], dict[str, float]] = {}
    for line in lines:
        if line.value is not None:
            place = tuple(
                str(line.axes[name])
                for name in ("method", "version", "hp", "column", "dataset", "rounds")
            )
            groups.setdefault(place, {}).setdefault(str(line.axes["seed"]), line.value)
    several = [list(values.values()) for values in groups.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in several)
    if freedom < LEAST:
        return UNKNOWN
    return sqrt(sum((len(values) - 1) * variance(values) for values in several) / freedom)


def within(noise: float) -> float:
    """How far two runs of one cell may lie apart: two deviations of their difference."""
    return 2 * sqrt(2) * noise


def agree(one: Line, other: Line, noise: float) -> bool:
    """Whether two lines of one cell say the same."""
    if one.digests == other.digests and one.digests:
        return True
    if one.value is None or other.value is None:
        return one.value is other.value
    return abs(one.value - other.value) <= within(noise)


def tiers(known: Measured) -> dict[str, Tier]:
    """The tier of every cell's line that is shown."""
    spread = noise(known.lines)
    return {
        cell: _tier(known, line, spread)
        for cell in known.cells
        if (line := known.line(cell)) is not None
    }


def _tier(known: Measured, line: Line, spread: float) -> Tier:
    others = [other for other in known.cells[line.cell].values() if other.key != line.key]
    if any(agree(line, other, spread) for other in others):
        return Tier.CONFIRMED
    return Tier.RECOMPUTED if line.key in known.reruns else Tier.MEASURED
