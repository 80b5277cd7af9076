"""Whether independent runs of a cell agree: a published number is *measured*, or *confirmed* by a
run on another platform within one point and the noise of a run.
"""

from __future__ import annotations

from math import inf

from repfl.bench.evidence.committed import noise
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.evidence.committed.committed_runs import Measured
from repfl.paper_tables.core.statistics.intervals import half_width, pooled
from repfl.paper_tables.core.statistics.verdict import MARGIN

MEASURED, CONFIRMED = "measured", "confirmed"


def tier(line: Line, known: Measured) -> str:
    """Return how well a line is founded."""
    elsewhere = [each for each in known.others(line) if each.platform != line.platform]
    close = (each for each in elsewhere if gap(line, each) <= MARGIN / 100)
    return CONFIRMED if any(agree(line, each, known) for each in close) else MEASURED


def tiers(known: Measured) -> dict[str, str]:
    """Return the tier of every cell's best line."""
    best = {cell: known.line(cell) for cell in known.cells}
    return {cell: tier(line, known) for cell, line in best.items() if line is not None}


def agree(one: Line, other: Line, known: Measured) -> bool:
    """Return whether two lines of one cell may both be right. If the noise of a run is little
    known, they may lie many points apart.
    """
    return gap(one, other) <= allowed(one, known)


def gap(one: Line, other: Line) -> float:
    """Return how far apart two lines of one cell lie."""
    if one.digests == other.digests and one.digests:
        return 0.0
    if one.value is None or other.value is None:
        return 0.0 if one.value is other.value else inf
    return abs(one.value - other.value)


def allowed(line: Line, known: Measured) -> float:
    """Return how far from a line another run of its cell may lie: half of the 95 % interval for the
    difference of two runs, by the one noise model.
    """
    expected = pooled(noise.of_line(line, known))
    return float(half_width(expected.variance, expected.df, 2.0)) / 100
