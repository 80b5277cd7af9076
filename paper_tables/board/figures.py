"""The board's figures: ranks, pairs, fronts, trials."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, log10, nan

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.analysis import MethodMeans
from repfl.paper_tables.board.view import ALONE, COMMON, View
from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, NewCanvas

PAPER = "board"


def fig1(evidence: Evidence) -> Figure:
    """Draw accuracies and average ranks, and which of them are not significantly different."""
    view = View(evidence)
    ranks, critical = analysis.ranks(view.compared)
    _, overall = analysis.overall(view.compared)
    order = [*ranks.sort_values(kind="stable").index, *view.guests]
    panels = {
        label: analysis.method_means(view.scores, key)
        for key, label in (view.shown | view.complete).items()
    }
    data = pd.concat(
        [
            pd.DataFrame(
                {"panel": "rank", "value": ranks, "half": nan, "near": overall.get("near", False)}
            ),
            *(
                pd.DataFrame(
                    {"panel": p, "value": s.means, "half": s.half_widths, "near": _near(s)}
                )
                for p, s in panels.items()
            ),
        ]
    ).rename_axis("method")

    def draw(sheet: NewCanvas) -> Canvas:
        axes_list = _beside(sheet, 1 + len(panels), 2.6, order)
        heights = {name: -index for index, name in enumerate(order)}
        by_panel = data.groupby("panel", sort=False)
        for axes, (panel, points) in zip(axes_list, by_panel, strict=False):
            scored = points.dropna(subset=["value"])
            if scored.empty:
                figure_style.not_run(axes)
                continue
            rank = panel == "rank"
            for near, points in scored.groupby("near"):
                axes.errorbar(
                    points["value"],
                    [heights[name] for name in points.index],
                    xerr=None if points["half"].isna().any() else points["half"],
                    fmt="o",
                    color=figure_style.PALETTE[0],
                    markerfacecolor=figure_style.PALETTE[0] if near else "white",
                    markersize=4,
                    linewidth=1,
                )
            axes.set_title("average rank (1 is best)" if rank else str(panel))
            axes.set_xlabel("rank" if rank else "accuracy in %")
        return axes_list[0].figure  # type: ignore[return-value]

    what = (
        f"Average ranks over {' and '.join(view.shown.values())}, and accuracies with 95 %"
        " intervals. Filled points: accuracy not significantly different, at 5 %, from that of the"
        " panel's best method (Games-Howell; in the panel of ranks over its settings). Hollow"
        " points: significantly different."
    )
    if isfinite(critical):
        what += (
            " Nemenyi's test, of the ranks alone, calls two methods different if their average"
            f" ranks are more than {critical:.1f} apart."
        )
    return _figure(view, "fig1", "Who leads, and by how much", what, draw, data.reset_index())


def _near(stats: MethodMeans) -> np.ndarray:
    """Return which methods are not significantly different from the best one."""
    order = stats.means.dropna().sort_values(ascending=False)
    near = analysis.near_leader(stats, order) if len(order) else []
    return stats.means.index.isin(near)


def _beside(sheet: NewCanvas, count: int, width: float, names: list[str]) -> list[Axes]:
    """Return panels beside each other that share an axis of names, the first on top."""
    canvas = sheet(2 + width * count, 1.2 + 0.2 * max(6, len(names)))
    axes = figure_style.panels(canvas, count, count, sharey=True)
    names = [figure_style.literal(name) for name in names]
    axes[0].set_yticks([-index for index in range(len(names))], names)
    return axes


def fig2(evidence: Evidence) -> Figure:
    """Draw the probability that a client is better off with one method than with another."""
    view = View(evidence)
    order = view.mean("value").dropna().sort_values(ascending=False).index
    clients = view.clients[view.clients["column"].isin(list(view.shown))]
    probabilities = analysis.win_probability(clients, [str(name) for name in order])

    def draw(sheet: NewCanvas) -> Canvas:
        size = 2 + 0.27 * len(order)
        canvas = sheet(size + 0.8, size)
        axes = canvas.subplots()
        if probabilities.empty:
            figure_style.not_run(axes)
            return canvas
        image = axes.imshow(probabilities.to_numpy(float), cmap="RdBu", vmin=0, vmax=1)
        names = [figure_style.literal(str(name)) for name in order]
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.grid(visible=False)
        label = "clients better off with the row's method"
        canvas.colorbar(image, ax=axes, shrink=0.7, label=label)
        return canvas

    what = (
        "The share of clients that are better off with the method of the row than with that of the"
        " column; equal accuracies count half, every setting and study the same."
    )
    data = probabilities.rename_axis("method").reset_index()
    return _figure(view, "fig2", "Which method leaves more clients better off?", what, draw, data)


FRONTS = {
    "traffic": "KiB per client and round",
    "work": "millions of multiply-adds per client and round",
}


def fig3(evidence: Evidence) -> Figure:
    """Draw accuracy against bytes and multiply-adds."""
    view = View(evidence)
    value = view.mean("value")
    data = pd.DataFrame({"method": value.index, "value": value.to_numpy()}).dropna()
    for name in FRONTS:
        data[name] = data["method"].map(view.mean(name))
    over = ", mean over settings" if len(view.shown) > 1 else ""

    def draw(sheet: NewCanvas) -> Canvas:
        canvas = sheet(11, 4.6)
        cells = figure_style.panels(canvas, 2, 2, sharey=True)
        for axes, (name, label) in zip(cells, FRONTS.items(), strict=True):
            _front(axes, data.dropna(subset=[name, "value"]).set_index("method"), name)
            axes.set_xlabel(label)
        cells[0].set_ylabel(f"accuracy in %{over}")
        return canvas

    what = (
        f"Accuracy against bytes and against multiply-adds: {' and '.join(view.shown.values())},"
        " means over studies. The line is the front: methods that no other beats at the same cost"
        " or less; costs within 1 % are taken for the same. The front, the dearest method,"
        f" {ALONE}, {COMMON} and the five papers' methods (black) are named; all values are in the"
        " csv. What is trained before scoring, such as fine-tuning, is not counted."
    )
    return _figure(view, "fig3", "What accuracy costs", what, draw, data)


def _front(axes: Axes, scores: pd.DataFrame, cost: str) -> None:
    if scores.empty:
        figure_style.not_run(axes)
        return
    front = analysis.pareto_front(scores["value"], scores[cost])
    own = [name for name in findings.PAPERS if name in scores.index]
    _logarithmic(axes, scores[cost])
    axes.plot(scores[cost], scores["value"], "o", color="0.6", markersize=4)
    axes.plot(scores.loc[own, cost], scores.loc[own, "value"], "o", color="black", markersize=4)
    line = scores.loc[front]
    axes.plot(line[cost], line["value"], "-", color=figure_style.PALETTE[1], alpha=0.5, zorder=1)
    axes.plot(line[cost], line["value"], "o", color=figure_style.PALETTE[1], markersize=5)
    labelled = {*front, *own, str(scores[cost].idxmax()), ALONE, COMMON} & set(scores.index)
    low, high = np.log10(scores[cost].clip(lower=1)).agg(["min", "max"])
    step = 0.035 * float(scores["value"].max() - scores["value"].min())
    labels: list[tuple[float, float]] = []
    labelled_scores = scores.loc[sorted(labelled)].sort_values("value", ascending=False)
    for name, point in labelled_scores.iterrows():
        log_cost = log10(max(1.0, point[cost]))
        in_right_half = log_cost > low + 0.45 * (high - low)
        # above the front, or a little below a point; and below the labels near it
        height = float(point["value"]) + step * (0.75 if name in front else -0.25)
        heights = [h - step for x, h in labels if abs(x - log_cost) < (high - low) / 7]
        height = min([height, *heights])
        labels.append((log_cost, height))
        axes.annotate(
            figure_style.literal(str(name)),
            (point[cost], height),
            (-6 if in_right_half else 6, 0),
            textcoords="offset points",
            fontsize=7,
            fontweight="bold" if name in front else "normal",
            horizontalalignment="right" if in_right_half else "left",
            verticalalignment="center",
            bbox={"facecolor": "white", "alpha": 0.75, "linewidth": 0, "pad": 0.3},
            # above the front's line and below the points
            zorder=1.5,
        )


def _logarithmic(axes: Axes, costs: pd.Series) -> None:
    """Set a logarithmic axis; a cost of zero is drawn left of the lowest positive one."""
    positive = costs[costs > 0]
    if positive.empty:
        return
    if len(positive) < len(costs):
        axes.set_xscale("symlog", linthresh=float(positive.min()), linscale=0.4)
    else:
        axes.set_xscale("log")
    low, high = float(positive.min()), float(costs.max())
    steps = (10, 15, 20, 30, 50, 70) if high < 10 * low else (10, 20, 50)
    candidates = [step * 10.0**power for power in range(-4, 9) for step in steps]
    ticks = [tick for tick in candidates if low * 0.85 <= tick <= high * 1.1]
    ticks = [0.0, *ticks] if len(positive) < len(costs) else ticks
    axes.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
    axes.minorticks_off()


def fig4(evidence: Evidence) -> Figure:
    """Draw all trials: how much the accuracy of a method depends on its tuning."""
    view = View(evidence)
    fields = ["method", "column", "study", "trial", "status", "validation", "chosen"]
    data = view.trials[view.trials["status"] != "missing"][fields]

    def draw(sheet: NewCanvas) -> Canvas:
        with_data = set(data["column"])
        columns = {k: v for k, v in view.columns.items() if k in with_data} or view.columns
        own = data[data["chosen"] & data["column"].isin(list(view.shown))]
        best = own.groupby("method")["validation"].mean()
        everywhere = [name for name in view.methods if name not in view.guests]
        order = [*sorted(everywhere, key=lambda name: -best.get(name, 0.0)), *view.guests]
        panels = _beside(sheet, max(1, len(columns)), 3.2, order)
        heights = {name: -index for index, name in enumerate(order)}
        for axes, (key, label) in zip(panels, columns.items(), strict=False):
            trials = data[data["column"] == key]
            for chosen, colour in ((False, "0.6"), (True, figure_style.PALETTE[1])):
                points = trials[trials["chosen"] == chosen]
                y = points["method"].map(heights)
                axes.plot(points["validation"], y, "o", markersize=3, color=colour)
            diverged = trials.loc[trials["status"] != "done", "method"].map(heights)
            edge = axes.get_yaxis_transform()
            axes.plot([0.02] * len(diverged), diverged, "x", color="0.35", transform=edge)
            axes.set_title(figure_style.literal(label))
            axes.set_xlabel("validation accuracy in %")
        return panels[0].figure  # type: ignore[return-value]

    what = (
        "Validation accuracy of every trial of every study, the best rows first; the chosen trials"
        " are coloured, a cross at the left is a trial that diverged. A wide line is a method that"
        " must be tuned."
    )
    says = findings.of(view, findings.spread)
    return _figure(view, "fig4", "How much tuning matters", what, draw, data, findings=says)


def _figure(
    view: View,
    name: str,
    title: str,
    what: str,
    draw: Callable[[NewCanvas], Canvas],
    data: pd.DataFrame,
    findings: tuple[str, ...] = (),
) -> Figure:
    caption = view.caption(what)
    return forms.figure(
        *(view.evidence, (PAPER, name), title, what, draw, data),
        caption=caption,
        alt=caption,
        stamp="",
        findings=findings,
    )
