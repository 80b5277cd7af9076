"""The board's figures: ranks, pairs, fronts, trials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.board import analysis
from repfl.paper_tables.board.view import View
from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, Sheet

PAPER = "board"


def fig1(evidence: Evidence) -> Figure:
    """Average ranks, and which of them cannot be told apart."""
    view = View(evidence)
    ranks, critical = analysis.ranks(view.scores)
    ranks = ranks.dropna().sort_values()
    data = pd.DataFrame({"method": ranks.index, "rank": ranks.to_numpy(), "critical": critical})

    def draw(sheet: Sheet) -> Canvas:
        canvas = sheet(6, 1.2 + 0.2 * max(6, len(ranks)))
        axes = canvas.subplots()
        if ranks.empty:
            figures.not_run(axes)
            return canvas
        places = np.arange(len(ranks))[::-1]
        axes.plot(ranks.to_numpy(), places, "o", color=figures.PALETTE[0], markersize=6)
        axes.axvspan(ranks.iloc[0], ranks.iloc[0] + critical, color="0.5", alpha=0.18, linewidth=0)
        axes.set_yticks(places, [figures.literal(str(name)) for name in ranks.index])
        axes.set_xlabel("average rank over recipes and studies (1 is best)")
        axes.grid(axis="y", visible=False)
        return canvas

    what = (
        f"Average ranks. The grey band is Nemenyi's critical difference ({critical:.1f}) from the"
        " first: methods that end in it are not told apart from the first at 5 %."
    )
    return _figure(view, "fig1", "Who leads, and who cannot be told apart", what, (draw, data))


def fig2(evidence: Evidence) -> Figure:
    """The probability that a client is better off with one method than with another."""
    view = View(evidence)
    order = view.mean("value").reindex(view.methods).sort_values(ascending=False).index
    found = analysis.improvement(view.clients, [str(name) for name in order])
    data = found.rename_axis("method").reset_index()

    def draw(sheet: Sheet) -> Canvas:
        size = 2 + 0.27 * len(order)
        canvas = sheet(size + 0.8, size)
        axes = canvas.subplots()
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
    return _figure(view, "fig2", "Better off with which?", what, (draw, data))


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

    def draw(sheet: Sheet) -> Canvas:
        canvas = sheet(9, 4.2)
        for axes, (name, label) in zip(figures.panels(canvas, 2, 2), FRONTS.items(), strict=True):
            _front(axes, data, name)
            axes.set_xlabel(label)
            axes.set_ylabel("accuracy in %, mean over recipes")
        return canvas

    what = (
        "Accuracy against bytes and against multiply-adds, means over recipes and studies. The"
        " line is the front: methods that no other beats at the same cost or less."
    )
    return _figure(view, "fig3", "What accuracy costs", what, (draw, data))


def _front(axes: Axes, data: pd.DataFrame, cost: str) -> None:
    known = data.dropna(subset=[cost, "value"]).set_index("method")
    if known.empty:
        figures.not_run(axes)
        return
    front = analysis.front(known["value"], known[cost])
    axes.plot(known[cost], known["value"], "o", color="0.6", markersize=4)
    axes.plot(
        known.loc[front, cost],
        known.loc[front, "value"],
        "o-",
        color=figures.PALETTE[1],
        markersize=5,
    )
    for name in front:
        axes.annotate(
            figures.literal(str(name)),
            (known.loc[name, cost], known.loc[name, "value"]),
            textcoords="offset points",
            xytext=(4, 4),
            fontsize=7,
        )


def fig4(evidence: Evidence) -> Figure:
    """How much a method depends on its tuning: all trials."""
    view = View(evidence)
    trials = view.trials
    data = trials[trials["status"] == "done"][
        ["method", "column", "study", "trial", "validation", "chosen"]
    ]

    def draw(sheet: Sheet) -> Canvas:
        count = max(1, len(view.columns))
        canvas = sheet(3.2 * count, 1.2 + 0.2 * max(6, len(view.methods)))
        places = {name: -index for index, name in enumerate(view.methods)}
        for axes, (key, label) in zip(
            figures.panels(canvas, count, count, sharey=True), view.columns.items(), strict=False
        ):
            here = data[data["column"] == key]
            for chosen, colour in ((False, "0.6"), (True, figures.PALETTE[1])):
                points = here[here["chosen"] == chosen]
                heights = points["method"].map(places)
                axes.plot(points["validation"], heights, "o", markersize=3, color=colour)
            axes.set_yticks(list(places.values()), [figures.literal(name) for name in places])
            axes.set_title(figures.literal(label))
            axes.set_xlabel("validation accuracy in %")
        return canvas

    what = (
        "Validation accuracy of every trial of every study; the chosen ones are coloured. A wide"
        " line is a method that must be tuned."
    )
    return _figure(view, "fig4", "How much tuning matters", what, (draw, data))


Drawn = tuple[Callable[[Sheet], Canvas], pd.DataFrame]


def _figure(view: View, name: str, title: str, what: str, drawn: Drawn) -> Figure:
    caption = captions.caption(view.evidence, what, floor=False, accuracy=False)
    ids = tables.done_ids(view.evidence)
    draw, data = drawn
    head = (PAPER, name, title, caption, view.evidence.scale)
    return Figure(*head, ids=ids, draw=draw, data=data, alt=caption)
