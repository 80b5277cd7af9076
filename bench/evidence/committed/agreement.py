"""Agreement of independent runs of a cell: a published number is *measured*, or *confirmed* by a
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


def tier(line: Line, measured: Measured) -> str:
    """Return the evidence for a line: MEASURED, or CONFIRMED by a close run on another platform."""
    other_platforms = [each for each in measured.others(line) if each.platform != line.platform]
    close = (each for each in other_platforms if gap(line, each) <= MARGIN / 100)
    return CONFIRMED if any(agree(line, each, measured) for each in close) else MEASURED


def tiers(measured: Measured) -> dict[str, str]:
    """Return the evidence for every cell's best line."""
    best_lines = {cell: measured.line(cell) for cell in measured.cells}
    return {cell: tier(line, measured) for cell, line in best_lines.items() if line is not None}


def agree(one: Line, other: Line, measured: Measured) -> bool:
    """Return whether two lines of one cell agree. If the noise of a run is estimated from few runs,
    lines many points apart may agree.
    """
    return gap(one, other) <= tolerance(one, measured)


def gap(one: Line, other: Line) -> float:
    """Return the difference between two lines of one cell, as a share of 1."""
    if one.digests == other.digests and one.digests:
        return 0.0
    if one.value is None or other.value is None:
        return 0.0 if one.value is other.value else inf
    return abs(one.value - other.value)


def tolerance(line: Line, measured: Measured) -> float:
    """Return how far another run of its cell may lie from a line: half the width of the 95 %
    interval for the difference of two runs, by the noise model.
    """
    expected = pooled(noise.of_line(line, measured))
    return float(half_width(expected.variance, expected.df, 2.0)) / 100
