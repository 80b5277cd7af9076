"""Figure 4: accuracy against the quantile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import captions, figure_style, plots
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, NewCanvas
from repfl.paper_tables.fedobp.optima import SCORES, VERSIONS, fig4_claims
from repfl.paper_tables.fedobp.points import SHORTS, sweep
from repfl.paper_tables.fedobp.settings import DATASETS, PAPER, SAME_DATA, SWEPT

MARKS = ("s", "^", "o")
WIDTH, POSITION = 3, 9
"""Where quantiles of 0.9 and of one stand on the axis."""


DEFINED = (
    "Solid: as the paper defines the three scores, one quantile over all entries. Dashed: as the"
    " authors' logs have them, quantiles per tensor for I_G and I_F, the first score with an"
    " average over visits for I_O, momentum 0.7. Hollow marks: the logged accuracies. Stars: the"
    " highest point of each. README, 19 and 26."
)
PARALLEL = (
    "The logged CIFAR sweeps ran on two workers that did not share clients' models, so these panels"
    " cannot be met exactly. README, 19."
)
AXIS = (
    "The axis is logarithmic in 1 − q above 0.9, since the paper's optima lie there; a quantile of"
    " one stands at its end."
)


def fig4(evidence: Evidence) -> Figure:
    """Return accuracy against the quantile: three scores on six data sets."""
    data = sweep(evidence)
    planned = evidence.cells[evidence.cells["column"].isin(list(SHORTS))]
    full = evidence.scale != "smoke"  # digits stand beside no log
    return forms.figure(
        evidence,
        (PAPER, "fig4"),
        "Figure 4: accuracy against the quantile of three scores",
        "Accuracy at Dir(0.1) against the quantile q above which entries stay personal.",
        lambda sheet: draw_sweeps(sheet, data, forms.titles(evidence, DATASETS), logged=full),
        data,
        notes=(
            DEFINED,
            PARALLEL,
            AXIS,
            *forms.at_scale(evidence, smoke=SAME_DATA),
            *absent(evidence),
        ),
        claims=fig4_claims(evidence, data),
        stamp=captions.stamp(evidence, planned),
        alt="Accuracy against the quantile for three scores on six data sets, with the logs.",
    )


def absent(evidence: Evidence) -> tuple[str, ...]:
    """Return notes on planned points without a number."""
    cells = evidence.cells[evidence.cells["row"] != "shape"]
    notes: dict[str, None] = {}
    for column, group in cells.groupby("column"):
        lines = forms.missing(evidence, sorted(set(group["row"])), [str(column)])
        notes |= dict.fromkeys(f"{column}: {line}" for line in lines)
    return tuple(notes)


def draw_sweeps(
    sheet: NewCanvas, data: pd.DataFrame, titles: Mapping[str, str], *, logged: bool
) -> Canvas:
    """Draw one panel per data set: ours as lines, the authors' logs as hollow markers."""
    canvas = sheet(11.5, 6.6)
    axes = figure_style.panels(canvas, len(SWEPT), 3)
    sides = {"printed": VERSIONS[1:]} if logged else {}
    for panel, short in zip(axes, SWEPT, strict=True):
        lines = data[data["column"] == short]
        for index, score in enumerate(SCORES):
            of_score = lines[lines["score"] == score]
            for side, versions in {**sides, "ours": VERSIONS}.items():
                for version in versions:
                    line = of_score[(of_score["version"] == version) & of_score[side].notna()]
                    # of quantiles with runs of two lengths, those of the longer
                    line = line.sort_values("rounds").drop_duplicates("q", keep="last")
                    _line(panel, line.sort_values("q"), side, version, index)
        panel.set_title(titles[short])
        panel.set_ylim(*plots.limits(lines[[*sides, "ours"]].to_numpy(dtype=float)))
        nines_axis(panel, "q")
    for panel in axes[::3]:
        panel.set_ylabel("Accuracy (%)")
    canvas.legend(handles=_handles(data, logged), loc="outside lower center", ncols=7)
    return canvas


def _line(axes: Axes, line: pd.DataFrame, side: str, version: str, index: int) -> None:
    """Draw one curve, with a star at its highest point."""
    if line.empty:
        return
    ours = side == "ours"
    style: dict[str, Any] = {
        "color": figure_style.PALETTE[index],
        "marker": MARKS[index],
        "markersize": 4,
    }
    if ours:
        style |= {"linestyle": "-" if version == VERSIONS[0] else "--", "linewidth": 1.4}
    else:
        style |= {"linestyle": "none", "markerfacecolor": "none", "markeredgewidth": 0.8}
    values = line[side].astype(float)
    x = nines(line["q"])
    axes.plot(x, values, **style)
    top = int(values.to_numpy().argmax())
    face = style["color"] if ours else "none"
    axes.plot(x.iloc[top], values.iloc[top], "*", color=style["color"], mfc=face, markersize=12)


def nines(q: pd.Series) -> pd.Series:
    """Return positions on an axis that is linear up to 0.9 and logarithmic in 1 − q beyond; a
    quantile of one is at its end.
    """
    rest = (1 - q.astype(float)).round(9)
    far = -np.log10(rest.where(rest > 0, 1.0)) + WIDTH - 1
    return (q / 0.9 * WIDTH).where(q <= 0.9, far).where(rest > 0, POSITION)


def nines_axis(panel: Axes, name: str) -> None:
    """Label the axis of `nines`."""
    ticks = ["0", "0.3", "0.6", *(f"0.{nine * '9'}" for nine in range(1, 7)), "1"]
    panel.set_xlim(-0.3, POSITION + 0.3)
    panel.set_xticks(range(POSITION + 1), ticks, fontsize=7.5, rotation=35, ha="right")
    panel.set_xlabel(name)


def _handles(data: pd.DataFrame, logged: bool) -> list[Line2D]:
    """Return the legend entries: scores, and the kinds of curves that are drawn."""
    done = set(data.loc[data["ours"].notna(), "version"])
    kinds = [
        figure_style.handle(f"ours, {version}", linestyle="-" if version == VERSIONS[0] else "--")
        for version in VERSIONS
        if version in done
    ]
    if logged:
        hollow = {"marker": "o", "linestyle": "none", "markerfacecolor": "none"}
        kinds.append(figure_style.handle("authors' logs", **hollow))
    return [
        *(
            figure_style.handle(
                f"${score}$", color=figure_style.PALETTE[index], marker=MARKS[index]
            )
            for index, score in enumerate(SCORES)
        ),
        *kinds,
        figure_style.handle("highest", marker="*", linestyle="none", markersize=11),
    ]
