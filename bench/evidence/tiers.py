"""How well a measured number is founded: *measured* by one contributor on one platform;
*recomputed*, to the bit, on the same platform, whoever did it; *confirmed* on another platform,
within one point and the noise of a run.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf

from repfl.bench.evidence.lines import Line
from repfl.bench.evidence.measured import Measured
from repfl.paper_tables.core.verdict import MARGIN


class Tier(StrEnum):
    MEASURED = "measured"
    RECOMPUTED = "recomputed"
    CONFIRMED = "confirmed"


def apart(line: Line, known: Measured) -> float:
    """How far from a line another run of its cell may lie: half of the 95 % interval for the
    difference of two runs, by the one noise model.
    """
    from repfl.bench.evidence import noise
    from repfl.paper_tables.core.statistics import half_width, pooled

    expected = pooled(noise.of_line(line, known))
    return float(half_width(expected.variance, expected.df, 2.0)) / 100


def agree(one: Line, other: Line, known: Measured) -> bool:
    """Whether two lines of one cell may both be right."""
    return gap(one, other) <= apart(one, known)


def confirm(one: Line, other: Line, known: Measured) -> bool:
    """Whether they also say the same, as verdicts take the word: where the noise of a run is
    little known, lines may be right that lie many points apart.
    """
    return gap(one, other) <= MARGIN / 100 and agree(one, other, known)


def gap(one: Line, other: Line) -> float:
    """How far apart two lines of one cell lie."""
    if one.digests == other.digests and one.digests:
        return 0.0
    if one.value is None or other.value is None:
        return 0.0 if one.value is other.value else inf
    return abs(one.value - other.value)


def tiers(known: Measured) -> dict[str, Tier]:
    """The tier of every cell's line that is shown."""
    return {
        cell: _tier(known, line) for cell in known.cells if (line := known.line(cell)) is not None
    }


def _tier(known: Measured, line: Line) -> Tier:
    others = [other for other in known.cells[line.cell].values() if other.key != line.key]
    there = [other for other in others if other.platform != line.platform]
    if any(confirm(line, other, known) for other in there):
        return Tier.CONFIRMED
    again = any(
        line.digests and other.digests == line.digests and other.platform == line.platform
        for other in others
    )
    return Tier.RECOMPUTED if again or line.key in known.reruns else Tier.MEASURED
