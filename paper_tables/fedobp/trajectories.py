"""Our runs beside the curves of figures 2 and 3 in the authors' repository, round by round.

The drawn curves are logs with momentum 0.7. Our runs of Tables III and IV have none; runs of sixty
rounds have 0.7 and 0.9.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import NewCanvas
from repfl.paper_tables.core.statistics.trajectory import compare_curves
from repfl.paper_tables.fedobp.drawn_curves import drawn, smooth
from repfl.paper_tables.fedobp.settings import DATASETS, DRAWN, PRINTED, key

POINT = "start/pooled"
EARLY = (15, 50)
"""Rounds of the comparison: in runs of sixty rounds the last ten are smoothed at an edge."""
SHORT = ("0.7", "0.9")
"""Momenta of the runs of sixty rounds."""
LOGGED = "0.7"
"""The momentum of the logs behind the figures."""
KEYS = ["dataset", "method", "momentum"]
FIGURES = {"0.1": "fig2", "0.5": "fig3"}
LOG = "the paper's figure (log)"
COLOURS = {"0": "#0072b2", "0.7": "#d55e00", "0.9": "#009e73"}
PER_ROW = 5


def our_curves(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return our smoothed curves: dataset, method, momentum, seed, round, value."""
    rows = {name: (name, "0") for name in DRAWN}
    for momentum in SHORT:
        rows |= {f"{n}, momentum {momentum}, 60 rounds": (n, momentum) for n in DRAWN}
    columns = {key(s, alpha, tail): PRINTED[s] for s in DATASETS for tail in ("", "-60")}
    runs = forms.run_curves(evidence, list(rows), list(columns), POINT)
    runs = runs.sort_values(["id", "round"], kind="stable")
    runs["value"] = runs.groupby("id")["value"].transform(lambda part: smooth(part.to_numpy(float)))
    named = pd.DataFrame([rows[label] for label in runs["label"]], columns=["method", "momentum"])
    runs = runs.reset_index(drop=True).join(named)
    return runs.assign(dataset=runs["column"].map(columns))[[*KEYS, "seed", "round", "value"]]


START = 20
"""Rounds that a panel does not make room for."""
THINNED = 5
"""Every fifth point of a drawn curve is kept in the data of a figure."""


def data(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return our curves and those of the figure: column, label, kind, seed, round, mean."""
    ours = our_curves(evidence, alpha)
    suffix = ours["momentum"].map(lambda each: "" if each == "0" else f", momentum {each}")
    ours = ours.assign(label=ours["method"] + suffix, kind="ours")
    parts = [
        ours.rename(columns={"value": "mean"})[
            ["dataset", "label", "kind", "seed", "round", "mean"]
        ]
    ]
    for dataset in PRINTED.values():
        for method in DRAWN:
            line = drawn(FIGURES[alpha], dataset, method).iloc[::THINNED]
            points = {"round": line.index, "mean": line.to_numpy()}
            parts.append(pd.DataFrame(points).assign(dataset=dataset, label=method, kind=LOG))
    titles = {printed: DATASETS[short] for short, printed in PRINTED.items()}
    frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return frame.assign(column=frame["dataset"].map(titles)).drop(columns="dataset")


def draw(sheet: NewCanvas, evidence: Evidence, alpha: str) -> Canvas:
    """Draw a small panel per curve of ours, with that of the figure behind it."""
    ours = our_curves(evidence, alpha)
    titles = {printed: DATASETS[short] for short, printed in PRINTED.items()}
    pairs = [
        (dataset, method)
        for dataset in titles
        for method in DRAWN
        if ((ours["dataset"] == dataset) & (ours["method"] == method)).any()
    ]
    rows = max(1, -(-len(pairs) // PER_ROW))
    canvas = sheet(2.1 * PER_ROW, 1.6 * rows + 0.9)
    if not pairs:
        (axes,) = figure_style.panels(canvas, 1, 1)
        figure_style.not_run(axes)
        return canvas
    panels = figure_style.panels(canvas, len(pairs), PER_ROW)
    for axes, (dataset, method) in zip(panels, pairs, strict=True):
        line = drawn(FIGURES[alpha], dataset, method)
        axes.plot(line.index, line, color="0.55", linewidth=2.2, label="the paper's figure")
        here = ours[(ours["dataset"] == dataset) & (ours["method"] == method)]
        for (momentum, seed), run in here.groupby(["momentum", "seed"]):
            label = f"ours, momentum {momentum}" if seed == here["seed"].min() else None
            axes.plot(
                run["round"], run["value"], color=COLOURS[str(momentum)], linewidth=1, label=label
            )
        late = [*line[line.index > START], *here.loc[here["round"] > START, "value"]]
        if late:
            axes.set_ylim(min(late) - 2, max(late) + 1)
        axes.set_title(f"{method}, {titles[dataset]}", fontsize=8)
        axes.tick_params(labelsize=7)
    figure_style.legend_below(canvas, panels, columns=4)
    return canvas


def compared(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return ours minus the drawn curve over the early rounds, a row per data set, method and
    momentum, with the columns of `trajectory.COLUMNS`.
    """
    parts = []
    # smaller scales have other clients
    curves = (
        our_curves(evidence, alpha) if evidence.scale == "paper" else pd.DataFrame(columns=KEYS)
    )
    for names, runs in curves.groupby(KEYS, sort=False):
        dataset, method, momentum = map(str, names)
        line = drawn(FIGURES[alpha], dataset, method)
        if len(line):
            windows = compare_curves(runs[["seed", "round", "value"]], line, [EARLY])
            parts.append(windows.assign(dataset=dataset, method=method, momentum=momentum))
    if not parts:
        return pd.DataFrame(columns=[*KEYS, "rounds", "seeds", "difference", "rms", "noise"])
    frame = pd.concat(parts, ignore_index=True)
    orders = {"dataset": tuple(PRINTED.values()), "method": DRAWN, "momentum": ("0", *SHORT)}
    frame = frame.sort_values(
        KEYS, key=lambda each: each.map(orders[str(each.name)].index), kind="stable"
    )
    return frame[[*KEYS, "rounds", "seeds", "difference", "rms", "noise"]]


def findings(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return how our runs lie beside the drawn curves under each momentum, from the frame of
    `compared`.
    """
    parts = []
    for momentum, group in frame.groupby("momentum"):
        off = group["difference"]
        one = f"1 curve: {off.median():+.2f} points"
        many = f"{len(group)} curves: median {off.median():+.2f} points"
        reach = f" ({off.min():+.2f} to {off.max():+.2f})"
        parts.append(f"momentum {momentum}, {one if len(group) == 1 else many + reach}")
    if not parts:
        return ()
    first, last = EARLY
    return (
        f"Rounds {first} to {last}, ours minus the drawn curve (a log with momentum {LOGGED}):"
        f" {'; '.join(parts)}.",
    )


def notes(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the comparison of every curve, a note per data set, from the frame of `compared`."""
    lines = []
    for dataset, curves in frame.groupby("dataset", sort=False):
        parts = []
        for method, each in curves.groupby("method", sort=False):
            words = "; ".join(
                f"momentum {row['momentum']} {row['difference']:+.2f} (rms {row['rms']:.2f},"
                f" {_seeds(row)})"
                for row in each.to_dict("records")
            )
            parts.append(f"{method}: {words}")
        lines.append(f"Ours minus the drawn curve, {dataset}: {'. '.join(parts)}.")
    return tuple(lines)


def _seeds(row: Mapping[Hashable, Any]) -> str:
    """Return the number of runs, and the noise of a window between them if it is known."""
    if row["seeds"] == 1:
        return "1 run"
    return f"{row['seeds']} runs, which deviate by {row['noise']:.2f}"
