"""The picture of the front page: every number re-run at full scale, ours against theirs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from string import ascii_letters

from matplotlib.figure import Figure as Canvas

from repfl.bench.report import overview
from repfl.bench.report.numbers import Number
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.statistics.verdict import Verdict

NAME = "front.png"


def shown(numbers: Iterable[Number]) -> list[Number]:
    """Return the accuracies that were re-run at full scale and have a verdict."""
    return [each for each in overview.judged(numbers) if each.in_percent]


def write(numbers: Sequence[Number], commit: str, out: Path) -> None:
    """Write the picture; nothing if no number was re-run."""
    if not (points := shown(numbers)):
        (out / NAME).unlink(missing_ok=True)
        return
    draw(points, commit).savefig(out / NAME, dpi=160, metadata={"Software": None})


def draw(shown: Sequence[Number], commit: str) -> Canvas:
    """Return the picture of some numbers, each once."""
    printed, filed = overview.apart(shown)
    with figure_style.style():
        canvas = figure_style.new_canvas(7.0, 4.6)
        axes = canvas.subplots()
        low = min(min(n.printed or 0.0, n.ours or 0.0) for n in shown) - 3
        axes.plot([low, 100], [low, 100], color="0.6", linewidth=0.8, zorder=1)
        for group, label, marker, face in (
            (printed, "accuracy that a paper prints", "o", "#0173b2"),
            (filed, "value of the authors' logs", "s", "none"),
        ):
            for differs in (False, True):
                points = [n for n in group if (n.verdict == Verdict.DIFFERS) == differs]
                if differs and not points:
                    continue
                colour = "#d55e00" if differs else "#0173b2"
                axes.scatter(
                    [n.printed or 0.0 for n in points],
                    [n.ours or 0.0 for n in points],
                    marker=marker,
                    s=26,
                    facecolor=face if face == "none" else colour,
                    edgecolor=colour,
                    linewidth=1.0,
                    label=f"{label}{': differs' if differs else ''} ({len(points)})",
                    zorder=3,
                )
        differing = sorted(
            (n for n in shown if n.verdict == Verdict.DIFFERS), key=lambda n: n.ours or 0.0
        )
        names = []
        for place, number in enumerate(differing[: len(ascii_letters)]):
            letter, row = ascii_letters[place], number.row.partition(",")[0]
            setting = number.where.replace("; ", ", ")
            names.append(f"{letter}  {row}, {setting}")
            axes.annotate(
                letter,
                (number.printed or 0.0, number.ours or 0.0),
                xytext=(-5, 3 if place % 2 else -8),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )
        axes.text(
            0.49, 0.425, "\n".join(names), transform=axes.transAxes, va="top", fontsize=6.8,
            linespacing=1.25,
        )  # fmt: skip
        axes.set(xlabel="theirs, %", ylabel="ours, %", xlim=(low, 100.5), ylim=(low, 100.5))
        axes.set_title(_title(printed, filed), loc="left")
        axes.legend(loc="lower right")
        canvas.supxlabel(
            f"full-scale runs, {_seeds(shown)}; report of repfl at commit {commit[:12]}",
            fontsize=7.5,
            color="0.4",
            x=0.01,
            ha="left",
        )
    return canvas


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
    return f"{' or '.join(map(str, counts))} {runs} each"
