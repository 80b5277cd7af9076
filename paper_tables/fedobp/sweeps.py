"""The quantile sweeps, ours and those in the authors' logs, and figure 4, which draws them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.drawing import captions, figure_style, plots
from repfl.paper_tables.core.evidence import Changed, Evidence
from repfl.paper_tables.core.result import Figure, NewCanvas
from repfl.paper_tables.core.statistics.intervals import spread
from repfl.paper_tables.core.statistics.verdict import MARGIN, Kind, Verdict
from repfl.paper_tables.fedobp import optima
from repfl.paper_tables.fedobp.optima import SCORES, VERSIONS
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    PAPER,
    PRINTED,
    SAME_DATA,
    SINGLE,
    SWEPT,
    key,
)

LOGS = "author logs (Fig 4)"
LOGGED_AS = {"I_G": "I_G", "I_F": "I_F", "I_O": "I_O (first version)"}
WHY = (
    "inferred: the logged sweep ran on two workers that do not share clients' models; in one"
    " process ours falls less or not at all, and a log has 86.36 at q = 0.9999 (README, The"
    " quantile)"
)
JUDGED = ("printed", *tables.NO_VERDICT, "source")
OURS = ("ours", "std", "seeds", "low", "high", "by_seed")
FIELDS = [
    *("column", "score", "version", "rounds", "q"), *OURS, *JUDGED, "ratio", "wire",
]  # fmt: skip
OURS_ALONE = ("floor", "one_model", "rule", "borrowed")
"""Fields of ours that a verdict needs and a figure does not show."""
SETTING = re.compile(r"rounds=(\d+); q=([\d.]+)")

SHORTS = {
    key(short, tail=tail): short for short in SWEPT for tail in ("-sweep", "-sweep-m0.7", "-m0.7")
}
"""The data set of every swept recipe."""
SCORE_OF = {"grad": "I_G", "fisher": "I_F", "obp": "I_O", "obp_legacy": "I_O"}
"""Our scores by their names in the paper."""


def logged_way(cell: Mapping[Any, Any]) -> bool:
    """Return whether a cell runs like the authors' logs: the first score, quantiles per tensor."""
    return cell["hp.score"] == "obp_legacy" or cell.get("hp.quantile_scope") == "tensor"


def planned(evidence: Evidence) -> pd.DataFrame:
    """Return one line per planned data set, score, version, number of rounds and quantile: our
    accuracy, and the downlink.
    """
    cells = evidence.cells[evidence.cells["column"].isin(list(SHORTS))]
    plain_of = dict(zip(cells.index, cells.to_dict("records"), strict=True))
    rows = []
    for _, cells_here in cells.groupby(["row", "column"], sort=False):
        first, *_ = plain = [plain_of[index] for index in cells_here.index]
        done = [cell for cell in plain if cell["status"] == "done"]
        point = {
            "column": SHORTS[str(first["column"])],
            "score": SCORE_OF[str(first["hp.score"])],
            "version": VERSIONS[logged_way(first)],
            "rounds": int(first["recipe.training.rounds"]),
            "q": float(first["hp.q"]),
            "ratio": spread([ratio(cell) for cell in done]).mean,
            "wire": spread([ratio(cell, codes=True) for cell in done]).mean,
        }
        rows.append(our_numbers.measure(evidence, cells_here) | point)
    return pd.DataFrame(rows, columns=[*(f for f in FIELDS if f not in JUDGED), *OURS_ALONE])


def ratio(
    cell: Mapping[Any, Any] | pd.Series, *, direction: str = "down", codes: bool = False
) -> float:
    """Return the bytes that went down (or up), as a share of a full model for every participant of
    every round.
    """
    sent = float(cell["participants"]) * float(cell["recipe.training.rounds"])
    full = 4.0 * float(cell["parameters"]) * sent
    return (
        float(cell[f"traffic.{direction}_values"])
        + (float(cell[f"traffic.{direction}_codes"]) if codes else 0.0)
    ) / full


def logs(evidence: Evidence) -> pd.DataFrame:
    """Return the authors' logged sweeps in the same form."""
    rows = evidence.published[evidence.published["table"] == LOGS]
    names = {printed: short for short, printed in PRINTED.items()}
    scores = {logged: score for score, logged in LOGGED_AS.items()}
    settings = rows["setting"].str.extract(SETTING)
    lines = pd.DataFrame(
        {
            "column": rows["dataset"].map(names),
            "score": rows["method"].map(scores),
            "version": VERSIONS[1],
            "rounds": settings[0].astype(float),
            "q": settings[1].astype(float),
            "printed": rows["value"],
            "source": rows["source"],
        }
    )
    return lines.dropna().astype({"rounds": int}).reset_index(drop=True)


def sweep(evidence: Evidence) -> pd.DataFrame:
    """Return our points and the logged ones, with a verdict on each logged one; points that the
    scale leaves out are missing.
    """
    ours, printed = planned(evidence), logs(evidence)
    keys = ["column", "score", "version", "q"] + (["rounds"] if evidence.scale == "paper" else [])
    if evidence.scale != "paper":
        ours = ours.rename(columns={"rounds": "own rounds"})
    data = printed.merge(ours, on=keys, how="outer", sort=True)
    data["rounds"] = (
        data["rounds"].fillna(data["own rounds"]) if "own rounds" in data else data["rounds"]
    )
    data["source"] = data["source"].fillna("")
    rows = ({str(name): value for name, value in row.items()} for _, row in data.iterrows())
    judged = pd.DataFrame([_judged(evidence.scale, row) for row in rows], index=data.index)
    data = data.assign(**judged)
    inferred = (data["column"] == "cifar10") & (data["score"] == "I_O")
    differs = inferred & (data["verdict"] == Verdict.DIFFERS)
    data = data.assign(reason=differs.map({True: WHY, False: ""}))[[*FIELDS, "reason"]]
    return data.sort_values(
        ["column", "score", "version", "rounds", "q"], kind="stable", ignore_index=True
    )


def _judged(scale: str, row: dict[Any, Any]) -> dict[str, Any]:
    """Return a point with its verdict; one that is not planned at this scale has no seeds."""
    known = {name: value for name, value in row.items() if value == value}
    blank = {"ours": nan, "std": nan, "printed": nan, "floor": nan}
    seeds = int(known.get("seeds", 0))
    cell = blank | known | {"scale": scale, "printed_std": nan, "seeds": seeds}
    result = tables.conclude(cell, "%", Kind.LOGGED, printing=SINGLE)
    return {name: result[name] for name in tables.NO_VERDICT}


# -- figure 4 --------------------------------------------------------------------------------------

MARKS = ("s", "^", "o")
MEANS = {"I_G": "gradient", "I_F": "Fisher", "I_O": "the paper's score"}
"""Legends of the three scores."""
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
        lambda new_canvas: draw_sweeps(
            new_canvas, data, forms.titles(evidence, DATASETS), logged=full
        ),
        data,
        notes=(DEFINED, PARALLEL, *forms.at_scale(evidence, smoke=SAME_DATA), *absent(evidence)),
        claims=optima.fig4_claims(evidence, data),
        findings=nearness(data) if full else (),
        stamp=captions.stamp(evidence, planned),
        alt="Accuracy against the quantile for three scores on six data sets, with the logs.",
    )


def nearness(data: pd.DataFrame) -> tuple[str, ...]:
    """Return at how many logged quantiles ours lies near the log, and where it is farthest."""
    both = data.dropna(subset=["ours", "printed"])
    both = both[both["verdict"] != Verdict.OTHER_SCALE]
    if both.empty:
        return ()
    gaps = (both["ours"] - both["printed"]).abs().to_numpy(float)
    far, near = both.iloc[int(gaps.argmax())], int((gaps <= MARGIN).sum())
    return (
        f"Of {len(both)} points that ours and the authors' logs share, {near} lie within a point of"
        f" each other; farthest apart: {far['score']} on {DATASETS[far['column']]} at q ="
        f" {far['q']:.7g}, ours {far['ours']:.1f} %, logged {far['printed']:.1f} %.",
    )


def absent(evidence: Evidence) -> tuple[str, ...]:
    """Return notes on planned points without a number."""
    notes: dict[str, None] = {}
    for column, cells in evidence.cells[evidence.cells["row"] != "shape"].groupby("column"):
        here, rows = Changed(evidence, cells=cells), sorted(set(cells["row"]))
        lines = forms.missing(here, rows, [str(column)])
        notes |= dict.fromkeys(f"{column}: {line}" for line in lines)
    return tuple(notes)


def draw_sweeps(
    new_canvas: NewCanvas, data: pd.DataFrame, titles: Mapping[str, str], *, logged: bool
) -> Canvas:
    """Draw one panel per data set: ours as lines, the authors' logs as hollow markers."""
    canvas = new_canvas(11.5, 6.6)
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
        nines_axis(panel, "q (logarithmic in 1 − q above 0.9)")
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
                f"{score}: {MEANS[score]}", color=figure_style.PALETTE[index], marker=MARKS[index]
            )
            for index, score in enumerate(SCORES)
        ),
        *kinds,
        figure_style.handle("highest", marker="*", linestyle="none", markersize=11),
    ]
