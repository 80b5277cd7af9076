"""Our curves beside a paper's, as readers see them: a line per window of rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repfl.bench.report.formats import formatting
from repfl.paper_tables.core.number_text import plain, signed
from repfl.paper_tables.core.result import Result


@dataclass(frozen=True)
class CurveLine:
    """How far our runs lie from one curve of a paper over a window of rounds, in points."""

    row: str
    column: str
    where: str
    """The name of the column."""
    setting: str
    beside: str
    """The figure that has the curve, as paper/name."""
    rounds: str
    seeds: int
    difference: float
    difference_text: str
    """With its 95 % interval, if there is one."""
    rms: str
    noise: str
    """The standard deviation of a run's mean over the window; a dash for a single run."""
    verdict: str

    @property
    def in_words(self) -> str:
        runs = f"{self.seeds} run{'s' * (self.seeds > 1)}"
        gap = f"{self.difference_text} points from {self.beside} on average"
        return f"{gap}, {self.rms} root mean square ({runs}, {self.verdict})"


def curve_lines(result: Result, names: Mapping[str, str]) -> tuple[CurveLine, ...]:
    """Return the comparisons of a result's curves; `names` are those of columns."""
    return tuple(
        CurveLine(
            row=each["row"],
            column=each["column"],
            where=names.get(each["column"], each["column"]),
            setting=each["setting"],
            beside=each["beside"],
            rounds=f"{each['first']} to {each['last']}",
            seeds=each["seeds"],
            difference=each["difference"],
            difference_text=signed(each["difference"])
            + formatting.between(each["low"], each["high"], 2, " [{}, {}]"),
            rms=plain(each["rms"]),
            noise=plain(each["noise"]),
            verdict=each["verdict"],
        )
        for each in result.curve_gaps.to_dict("records")
    )
