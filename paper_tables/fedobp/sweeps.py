"""Figure 4: accuracy against the quantile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, Sheet
from repfl.paper_tables.fedobp.curves import gaps
from repfl.paper_tables.fedobp.optima import SCORES, VERSIONS, fig4_claims
from repfl.paper_tables.fedobp.points import SHORTS, sweep
from repfl.paper_tables.fedobp.settings import DATASETS, PAPER, SWEPT, smoke_note

SIGNS = {"I_G": "$I_G$", "I_F": "$I_F$", "I_O": "$I_O$"}
MARK = {"I_G": "s", "I_F": "^", "I_O": "o"}
POSITION = 6.8
"""Where a quantile of exactly one stands on an axis of −log10(1 − q)."""


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
    "Right-hand panels: the same curves against 1 − q on a logarithmic axis, where the paper's"
    " optima lie; a quantile of one stands at the end."
)


def fig4(evidence: Evidence) -> Figure:
    """Three scores on six data sets."""
    data = sweep(evidence)
    labels = sorted(set(evidence.cells["row"]) - {"shape"})
    columns = sorted(set(evidence.cells.loc[evidence.cells["row"] != "shape", "column"]))
    return Figure(
        PAPER,
        "fig4",
        "Figure 4: accuracy against the quantile of three scores",
        captions.caption(
            evidence,
            "Accuracy at Dir(0.1) against the quantile q above which entries stay personal.",
            accuracy=False,
        ),
        evidence.scale,
        (DEFINED, PARALLEL, AXIS, *smoke_note(evidence.scale), *absent(evidence, labels, columns)),
        fig4_claims(evidence, data),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence, evidence.cells[evidence.cells["column"].isin(list(SHORTS))]),
        draw=lambda sheet: draw_sweeps(sheet, data),
        data=data,
        alt=(
            "Accuracy against the quantile for three scores on six data sets, over the whole range"
            " and near one, with the logged values."
        ),
    )


def absent(evidence: Evidence, labels: Sequence[str], columns: Sequence[str]) -> tuple[str, ...]:
    """Notes on planned points without a number."""
    planned = set(evidence.cells["row"] + "@" + evidence.cells["column"])
    found: dict[str, None] = {}
    for column in columns:
        here = [label for label in labels if f"{label}@{column}" in planned]
        found |= dict.fromkeys(f"{column}: {note}" for note in gaps(evidence, here, [column]))
    return tuple(found)


def draw_sweeps(sheet: Sheet, data: pd.DataFrame) -> Canvas:
    """Per data set the whole range and the end near one."""
    canvas = sheet(12, 9.6)
    axes = figures.panels(canvas, 2 * len(SWEPT), 4)
    for place, short in enumerate(SWEPT):
        whole, near = axes[2 * place], axes[2 * place + 1]
        lines = data[data["column"] == short]
        for score, version, line in _lines(lines):
            whole.plot(line["q"], line["ours"], **_style(score, version))
            near.plot(near_one(line["q"]), line["ours"], **_style(score, version))
            _optimum(whole, near, line, "ours", score)
        for index, score in enumerate(SCORES):
            logged = lines[(lines["score"] == score) & lines["published"].notna()]
            hollow: dict[str, Any] = {
                "marker": MARK[score],
                "linestyle": "none",
                "markersize": 4,
                "markerfacecolor": "none",
                "markeredgewidth": 0.8,
            }
            whole.plot(logged["q"], logged["published"], color=figures.PALETTE[index], **hollow)
            near.plot(
                near_one(logged["q"]), logged["published"], color=figures.PALETTE[index], **hollow
            )
            _optimum(whole, near, logged, "published", score)
        _finish(whole, near, DATASETS[short], lines[["ours", "published"]].to_numpy(dtype=float))
    for place, panel in enumerate(axes):
        panel.set_xlabel("1 − q" if place % 2 else "q")
    canvas.legend(handles=_handles(), loc="outside lower center", ncols=7)
    return canvas


def _optimum(whole: Axes, near: Axes, line: pd.DataFrame, side: str, score: str) -> None:
    """A star at the highest point of a curve: full for ours, hollow for the logs."""
    if line.empty:
        return
    top = line.loc[[line[side].astype(float).idxmax()]]
    colour = figures.PALETTE[SCORES.index(score)]
    star: dict[str, Any] = {
        "marker": "*",
        "markersize": 12,
        "linestyle": "none",
        "markeredgecolor": "black" if side == "ours" else colour,
        "markerfacecolor": colour if side == "ours" else "none",
        "zorder": 6,
    }
    whole.plot(top["q"], top[side], **star)
    near.plot(near_one(top["q"]), top[side], **star)


def _lines(data: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """Every curve of ours: where some quantiles have runs of two lengths, those of the longer."""
    found = []
    for score in SCORES:
        for version in VERSIONS:
            line = data[
                (data["score"] == score) & (data["version"] == version) & data["ours"].notna()
            ].drop_duplicates("q", keep="last")
            if len(line):
                found.append((score, version, line.sort_values("q")))
    return found


def _style(score: str, version: str) -> dict[str, Any]:
    own = version == VERSIONS[0]
    line = (
        {"linestyle": "-", "linewidth": 1.5}
        if own
        else {"linestyle": (0, (4, 2)), "linewidth": 1.0}
    )
    return {
        "color": figures.PALETTE[SCORES.index(score)],
        "marker": MARK[score],
        "markersize": 3.5 if own else 2.5,
        **line,
    }


def near_one(q: pd.Series) -> pd.Series:
    """Places on the logarithmic axis of 1 − q, a quantile of one at its end."""
    rest = (1 - q.astype(float)).round(9)
    return pd.Series(
        np.where(rest > 0, -np.log10(rest.where(rest > 0, 1.0)), POSITION), index=q.index
    )


def _finish(whole: Axes, near: Axes, title: str, values: np.ndarray) -> None:
    whole.set_title(title)
    near.set_title(f"{title}, near q = 1")
    whole.set_ylabel("Accuracy (%)")
    for panel in (whole, near):
        panel.set_ylim(*figures.limits(values))
    log_axis(near)


def log_axis(panel: Axes, first: float = 0.9) -> None:
    """From a tenth of all entries to one in a million, and none."""
    panel.set_xlim(first, POSITION + 0.3)
    panel.set_xticks(
        [1, 2, 3, 4, 5, 6, POSITION],
        ["$10^{-1}$", "$10^{-2}$", "$10^{-3}$", "$10^{-4}$", "$10^{-5}$", "$10^{-6}$", "0"],
    )


def _handles() -> list[Line2D]:
    scores = [
        Line2D([], [], color=figures.PALETTE[i], marker=MARK[s], markersize=4, label=SIGNS[s])
        for i, s in enumerate(SCORES)
    ]
    kinds = [
        Line2D([], [], color="0.3", label=VERSIONS[0]),
        Line2D([], [], color="0.3", linestyle=(0, (4, 2)), label=VERSIONS[1]),
    ]
    return [
        *scores,
        *kinds,
        Line2D(
            [],
            [],
            color="0.3",
            marker="o",
            linestyle="none",
            markerfacecolor="none",
            markersize=4,
            label="logged",
        ),
        Line2D([], [], color="0.3", marker="*", linestyle="none", markersize=11, label="optimum"),
    ]
