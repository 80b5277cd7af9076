"""The board's figures: ranks, pairs, fronts, trials."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite, nan

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.board import analysis, findings
from repfl.paper_tables.board.view import View
from repfl.paper_tables.core import figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, Sheet

PAPER = "board"


def fig1(evidence: Evidence) -> Figure:
    """Accuracies and average ranks, and which of them cannot be told apart from the best."""
    view = View(evidence)
    ranks, critical = analysis.ranks(view.compared)
    order = list(ranks.sort_values(kind="stable").index)
    panels = {label: analysis.standing(view.scores, key) for key, label in view.shown.items()}
    data = pd.concat(
        [
            pd.DataFrame({"panel": "rank", "value": ranks, "half": nan, "apart": critical}),
            *(
                pd.DataFrame({"panel": p, "value": s.means, "half": s.half, "apart": s.apart})
                for p, s in panels.items()
            ),
        ]
    ).rename_axis("method")

    def draw(sheet: Sheet) -> Canvas:
        count = 1 + len(panels)
        canvas = sheet(2 + 2.6 * count, 1.2 + 0.2 * max(6, len(order)))
        places = {name: -place for place, name in enumerate(order)}
        cells = figures.panels(canvas, count, count, sharey=True)
        for axes, (panel, here) in zip(cells, data.groupby("panel", sort=False), strict=False):
            known = here.dropna(subset=["value"])
            if known.empty:
                figures.not_run(axes)
                continue
            best = known["value"].min() if panel == "rank" else known["value"].max()
            end = best + known["apart"].iloc[0] * (1 if panel == "rank" else -1)
            if np.isfinite(end):
                axes.axvspan(best, end, color="0.5", alpha=0.18, linewidth=0)
            axes.errorbar(
                known["value"],
                [places[name] for name in known.index],
                xerr=None if known["half"].isna().any() else known["half"],
                fmt="o",
                color=figures.PALETTE[0],
                markersize=4,
                linewidth=1,
            )
            axes.set_yticks(list(places.values()), [figures.literal(str(m)) for m in places])
            axes.set_title("average rank (1 is best)" if panel == "rank" else str(panel))
            axes.set_xlabel("rank" if panel == "rank" else "accuracy in %")
        return canvas

    told = f" ({critical:.1f})" if isfinite(critical) else ""
    what = (
        "Average ranks over recipes and studies, and accuracies with 95 % intervals. Methods whose"
        " point lies in the grey band are not told apart from the best one at 5 %: Nemenyi's"
        f" critical difference of ranks{told}, Tukey's of accuracies."
    )
    drawn = (draw, data.reset_index())
    return _figure(view, "fig1", "Who leads, and who cannot be told apart", what, drawn)


def fig2(evidence: Evidence) -> Figure:
    """The probability that a client is better off with one method than with another."""
    view = View(evidence)
    order = view.mean("value").dropna().sort_values(ascending=False).index
    clients = view.clients[view.clients["column"].isin(list(view.shown))]
    found = analysis.improvement(clients, [str(name) for name in order])
    data = found.rename_axis("method").reset_index()

    def draw(sheet: Sheet) -> Canvas:
        size = 2 + 0.27 * len(order)
        canvas = sheet(size + 0.8, size)
        axes = canvas.subplots()
        if found.empty:
            figures.not_run(axes)
            return canvas
        image = axes.imshow(found.to_numpy(float), cmap="RdBu", vmin=0, vmax=1)
        names = [figures.literal(str(name)) for name in order]
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(names)), names)
        axes.grid(visible=False)
        bar = canvas.colorbar(image, ax=axes, shrink=0.7)
        bar.set_label("clients better off with the row's method")
        return canvas

    what = (
        "The share of clients that are better off with the method of the row than with that of the"
        " column; equal accuracies count half, every recipe and study the same."
    )
    return _figure(view, "fig2", "Which method leaves more clients better off?", what, (draw, data))


FRONTS = {
    "traffic": "KiB per client and round",
    "work": "millions of multiply-adds per client and round",
}


def fig3(evidence: Evidence) -> Figure:
    """Accuracy against what it costs."""
    view = View(evidence)
    value = view.mean("value")
    data = pd.DataFrame({"method": value.index, "value": value.to_numpy()}).dropna()
    for name in FRONTS:
        data[name] = data["method"].map(view.mean(name))

    over = ", mean over recipes" if len(view.shown) > 1 else ""

    def draw(sheet: Sheet) -> Canvas:
        canvas = sheet(12, 1.2 + 0.19 * max(12, len(data)))
        for axes, (name, label) in zip(figures.panels(canvas, 2, 2), FRONTS.items(), strict=True):
            _front(axes, data, name)
            axes.set_xlabel(label)
            axes.set_ylabel(f"accuracy in %{over}")
        return canvas

    what = (
        f"Accuracy against bytes and against multiply-adds: {' and '.join(view.shown.values())},"
        " means over studies. The line is the front: methods that no other beats at the same cost"
        " or less; costs within 1 % are taken for the same. What is trained before scoring, such as"
        " fine-tuning, is not counted. Names stand in the order of accuracy, those of the front in"
        " bold; costs are on a logarithmic scale."
    )
    return _figure(view, "fig3", "What accuracy costs", what, (draw, data))


def _front(axes: Axes, data: pd.DataFrame, cost: str) -> None:
    known = data.dropna(subset=[cost, "value"]).set_index("method")
    if known.empty:
        figures.not_run(axes)
        return
    front = analysis.front(known["value"], known[cost])
    _logarithmic(axes, known[cost])
    axes.plot(known[cost], known["value"], "o", color="0.6", markersize=4)
    axes.plot(
        known.loc[front, cost],
        known.loc[front, "value"],
        "o-",
        color=figures.PALETTE[1],
        markersize=5,
    )
    order = known.sort_values("value", kind="stable")
    for place, (name, spent, reached) in enumerate(order[[cost, "value"]].itertuples()):
        axes.annotate(  # beside the axes and evenly spaced, since many methods cost the same
            figures.literal(str(name)),
            (spent, reached),
            (1.08, (place + 0.5) / len(order)),
            textcoords="axes fraction",
            fontsize=7,
            fontweight="bold" if name in front else "normal",
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "linewidth": 0.3, "color": "0.6", "relpos": (0, 0.5)},
        )


def _logarithmic(axes: Axes, costs: pd.Series) -> None:
    """Most methods send what FedAvg sends, one a multiple; one that sends nothing has no
    logarithm, and stands at the left of the least.
    """
    some = costs[costs > 0]
    if some.empty:
        return
    if len(some) < len(costs):
        axes.set_xscale("symlog", linthresh=float(some.min()), linscale=0.4)
    else:
        axes.set_xscale("log")
    low, high = float(some.min()), float(costs.max())
    decades = np.log10(high / low)
    steps = (1, 2, 5) if decades < 2.5 else (1,)
    every = [step * 10.0**power for power in range(-3, 10) for step in steps]
    marks = [mark for mark in every if low * 0.9 <= mark <= high * 1.1]
    marks = [0.0, *marks] if len(some) < len(costs) else marks
    axes.set_xticks(marks, [f"{mark:,g}" for mark in marks])
    axes.minorticks_off()


def fig4(evidence: Evidence) -> Figure:
    """How much a method depends on its tuning: all trials."""
    view = View(evidence)
    trials = view.trials
    data = trials[trials["status"] != "missing"][
        ["method", "column", "study", "trial", "status", "validation", "chosen"]
    ]

    def draw(sheet: Sheet) -> Canvas:
        columns = {k: v for k, v in view.columns.items() if k in set(data["column"])}
        columns = columns or view.columns
        count = max(1, len(columns))
        canvas = sheet(1.6 + 3.2 * count, 1.2 + 0.2 * max(6, len(view.methods)))
        places = {name: -index for index, name in enumerate(view.methods)}
        for axes, (key, label) in zip(
            figures.panels(canvas, count, count, sharey=True), columns.items(), strict=False
        ):
            here = data[data["column"] == key]
            for chosen, colour in ((False, "0.6"), (True, figures.PALETTE[1])):
                points = here[here["chosen"] == chosen]
                heights = points["method"].map(places)
                axes.plot(points["validation"], heights, "o", markersize=3, color=colour)
            fallen = here.loc[here["status"] != "done", "method"].map(places)
            axes.plot(
                [0.02] * len(fallen), fallen, "x", color="0.3", transform=axes.get_yaxis_transform()
            )
            axes.set_yticks(list(places.values()), [figures.literal(name) for name in places])
            axes.set_title(figures.literal(label))
            axes.set_xlabel("validation accuracy in %")
        return canvas

    what = (
        "Validation accuracy of every trial of every study; the chosen ones are coloured, a cross"
        " at the left is a trial that diverged. A wide line is a method that must be tuned."
    )
    says = findings.of(view, findings.spread)
    return _figure(view, "fig4", "How much tuning matters", what, (draw, data), says)


Drawn = tuple[Callable[[Sheet], Canvas], pd.DataFrame]


def _figure(
    view: View, name: str, title: str, what: str, drawn: Drawn, says: tuple[str, ...] = ()
) -> Figure:
    caption = view.caption(what)
    ids = tables.done_ids(view.evidence)
    draw, data = drawn
    head = (PAPER, name, title, caption, view.evidence.scale)
    return Figure(*head, ids=ids, findings=says, draw=draw, data=data, alt=caption)
