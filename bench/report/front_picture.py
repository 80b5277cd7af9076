"""The picture of the front page: every number re-run at full scale, ours minus theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.bench.report import overview
from repfl.bench.report.numbers import Number
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import STALE
from repfl.paper_tables.core.statistics.verdict import MARGIN, Verdict

NAME = "front.png"


def shown(numbers: Iterable[Number]) -> list[Number]:
    """Return the accuracies that were re-run at full scale and have a verdict. One that a paper
    prints in two tables is shown once, where it stands first.
    """
    first: dict[tuple[object, ...], Number] = {}
    for each in overview.judged(numbers):
        if each.in_percent:
            first.setdefault((each.paper, each.kind, each.runs or each.id, each.printed), each)
    return list(first.values())


def write(numbers: Sequence[Number], commit: str, out: Path) -> None:
    """Write the picture; nothing if no number was re-run."""
    if not (points := shown(numbers)):
        (out / NAME).unlink(missing_ok=True)
        return
    draw(points, commit).savefig(out / NAME, dpi=160, metadata={"Software": None})


COLOURS = {Verdict.REPRODUCED: "#0a7d4f", Verdict.UNDECIDED: "#6f4fb0", Verdict.DIFFERS: "#b4370f"}
"""Those of the pages."""
REACH = (-9.0, 18.0)
"""Points that are shown; an interval that is longer ends in an arrow."""


def draw(shown: Sequence[Number], commit: str) -> Canvas:
    """Return the picture of some numbers, a line each: ours minus theirs with its interval."""
    printed, filed = overview.apart(shown)
    titles = {"accuracies in print": printed, "values of authors' logs": filed}
    parts = {title: part for title, part in titles.items() if part}
    with figure_style.style():
        longest = max(map(len, parts.values()))
        canvas = figure_style.new_canvas(4.3 * len(parts), 0.135 * longest + 1.3)
        panels = figure_style.panels(canvas, len(parts), len(parts))
        for axes, (title, part) in zip(panels, parts.items(), strict=True):
            _differences(axes, sorted(part, key=lambda number: number.difference or 0.0))
            axes.set_ylim(longest - 0.2, -0.8)
            axes.set_title(f"{len(part)} {title}", loc="left")
        seen = dict.fromkeys(number.verdict for number in shown)
        for verdict in (each for each in COLOURS if str(each) in seen):
            panels[0].plot([], [], "o", color=COLOURS[verdict], label=str(verdict))
        panels[0].plot([], [], "o", mfc="white", color="0.4", label="a run is stale")
        figure_style.legend_below(canvas, [panels[0]], columns=5)
        source = f"95 % intervals; {_seeds(shown)}; report of repfl at commit {commit[:12]}"
        canvas.suptitle(f"{_title(printed, filed)}\n{source}", x=0.01, ha="left", fontsize=10)
    return canvas


def _differences(axes: Axes, numbers: Sequence[Number]) -> None:
    """Draw a line per number."""
    left, right = REACH
    axes.axvspan(-MARGIN, MARGIN, color="0.92", zorder=0, label="within one point")
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=1)
    for place, number in enumerate(numbers):
        colour, gap = COLOURS[Verdict(number.verdict)], number.difference or 0.0
        low, high = number.difference_low, number.difference_high
        if low is not None and high is not None:
            ends = max(low, left), min(high, right)
            axes.plot(ends, [place, place], color=colour, linewidth=0.9, zorder=2)
            for beyond, end, sign in ((low < left, left, "<"), (high > right, right, ">")):
                if beyond:
                    axes.plot(end, place, sign, color=colour, markersize=3.5)
        face = "white" if STALE in number.tier else colour
        axes.plot(gap, place, "o", color=colour, markerfacecolor=face, markersize=4, zorder=3)
    names = [f"{n.row.partition(',')[0]}, {n.where.replace('; ', ', ')}" for n in numbers]
    axes.set_yticks(range(len(numbers)), names, fontsize=6.7)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xticks([-5, 0, 5, 10, 15])
    axes.set(xlim=(left - 0.5, right + 0.5), xlabel="ours minus theirs, points")


def _title(printed: Sequence[Number], filed: Sequence[Number]) -> str:
    """Return the finding: how many of each kind differ."""
    differ = [sum(n.verdict == Verdict.DIFFERS for n in group) for group in (printed, filed)]
    first = "none differs" if not differ[0] else f"{differ[0]} differ{'s' * (differ[0] == 1)}"
    return (
        f"Of {len(printed)} re-run printed accuracies {first}"
        f" significantly; of {len(filed)} logged values {differ[1]} do"
    )


def _seeds(shown: Sequence[Number]) -> str:
    """Return from how many runs each number is."""
    counts = sorted({number.seeds for number in shown})
    runs = "run" if counts == [1] else "runs"
    return f"{' to '.join(map(str, dict.fromkeys([counts[0], counts[-1]])))} {runs} each"
