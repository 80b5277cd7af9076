"""Figures 1 and 2: how single parameters of local models move, and whose stability is alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from scipy import stats

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.result import Claim, NewCanvas, Result, claim
from repfl.paper_tables.star_pfl.settings import PAPER

PREFIX = "note/trace/"
RECENT = 10
"""Updates in the stability of a parameter, as in the paper's server."""
SHOWN = 0
"""The client in figure 1."""
UNSTATED = (
    "The paper states neither the partition, nor the client, nor which parameters were drawn. Ours:"
    " FedAvg, two entries of each weight tensor, at one and two thirds of its length."
)
STABILITY = (
    f"Drift, which the paper calls stability: |sum of updates| / sum of |updates| over the last"
    f" {RECENT} rounds; 0 is settled, 1 moves one way. An update is what a client's training makes"
    " of the global value."
)


@dataclass(frozen=True)
class Traces:
    """Values of some entries after every round's local training."""

    values: np.ndarray  # [rounds, clients, entries]
    labels: np.ndarray  # [clients], each client's most frequent class
    entries: tuple[str, ...]
    run: str
    """Data set and seed."""

    @property
    def updates(self) -> np.ndarray:
        """What training added to the global value, which is the mean of the clients' last
        ones  [rounds - 1, clients, entries].
        """
        return self.values[1:] - self.values[:-1].mean(axis=1, keepdims=True)

    @property
    def stability(self) -> np.ndarray:
        """Of the last updates; 0 is settled, 1 moves one way  [clients, entries]."""
        recent = self.updates[-RECENT:]
        size = np.abs(recent).sum(0)
        return np.divide(np.abs(recent.sum(0)), size, out=np.zeros_like(size), where=size > 0)


def read(evidence: Evidence) -> Traces | str:
    """Return the recorded traces, or the reason why there are none."""
    done = pick(evidence, done=True)
    if done.empty:
        return why_missing(evidence.cells, evidence.scale)
    cell, run = (
        str(done.iloc[0]["id"]),
        f"{done.iloc[0]['column_label']}, seed {done.iloc[0]['seed']}",
    )
    rounds = evidence.rounds([cell], PREFIX)
    if rounds["round"].nunique() < 3:
        return f"cell {cell[:12]} holds no traces of three rounds or more"
    parts = rounds["name"].str.removeprefix(PREFIX).str.split("/", n=1, expand=True)
    table = rounds.assign(client=parts[0].astype(int), entry=parts[1])
    entries = tuple(name for name in dict.fromkeys(table["entry"]) if name != "label")
    labels = (
        table[table["entry"] == "label"]
        .drop_duplicates("client")
        .sort_values("client")["value"]
        .to_numpy(dtype=int)
    )
    wide = (
        table[table["entry"] != "label"]
        .pivot(index="round", columns=["client", "entry"], values="value")
        .sort_index()
    )
    order = [(client, entry) for client in sorted(table["client"].unique()) for entry in entries]
    return Traces(
        wide[order].to_numpy(dtype=float).reshape(len(wide), -1, len(entries)), labels, entries, run
    )


def _figure(
    evidence: Evidence,
    name: str,
    title: str,
    what: str,
    draw: Callable[[NewCanvas, Traces], Canvas],
    data: Callable[[Traces], pd.DataFrame],
    judge: Callable[[Traces | None, str], Claim],
) -> Result:
    traces, key = read(evidence), (PAPER, name)
    if isinstance(traces, str):
        claim = judge(None, evidence.scale)
        return forms.absent(evidence, key, title, what, traces, (claim,))
    moving = float((traces.stability > MOVING).mean())
    still = (
        f"{100 * moving:.0f} % of these entries drift one way (above {MOVING}) after"
        f" {len(traces.values)} rounds: what settles later is not seen yet."
    )
    return forms.figure(
        evidence,
        key,
        title,
        what,
        lambda new_canvas: draw(new_canvas, traces),
        data(traces),
        notes=(f"Drawn from: {traces.run}.", UNSTATED, STABILITY),
        claims=(judge(traces, evidence.scale),),
        findings=(still,),
    )


MOVING = 0.9
"""From this drift on an entry counts as moving one way."""


# -- figure 1 --------------------------------------------------------------------------------------


def fig1(evidence: Evidence) -> Result:
    """Return figure 1: values of one client's parameters, and size against stability."""
    title = "Figure 1: fluctuation of single parameters of a local model"
    what = (
        "Left: some parameters of one client's model after local training; the one that drifts most"
        " and the one that drifts least in colour. Right: size against drift, for all clients."
    )
    return _figure(evidence, "fig1", title, what, draw_traces, trace_data, size_claim)


def trace_data(traces: Traces) -> pd.DataFrame:
    """Return the data of figure 1: the shown client's values by round, and every client's size and
    stability.
    """
    rounds, _, count = traces.values.shape
    lines = pd.DataFrame(
        {
            "client": SHOWN,
            "entry": np.tile(traces.entries, rounds),
            "round": np.repeat(np.arange(1, rounds + 1), count),
            "value": traces.values[:, SHOWN].ravel(),
        }
    )
    points = _points(traces)
    return pd.concat([lines, points], ignore_index=True)


def _points(traces: Traces) -> pd.DataFrame:
    rounds, clients, count = traces.values.shape
    return pd.DataFrame(
        {
            "client": np.repeat(np.arange(clients), count),
            "entry": np.tile(traces.entries, clients),
            "round": rounds,
            "value": traces.values[-1].ravel(),
            "stability": traces.stability.ravel(),
        }
    )


def draw_traces(new_canvas: NewCanvas, traces: Traces) -> Canvas:
    """Draw trajectories beside a scatter."""
    canvas = new_canvas(8.4, 3.6)
    left, right = figure_style.panels(canvas, 2, 2)
    drift = traces.stability[SHOWN]
    marked = {int(drift.argmax()): ("drifts most", 0), int(drift.argmin()): ("drifts least", 1)}
    steps = np.arange(1, len(traces.values) + 1)
    for index, name in enumerate(traces.entries):
        style: dict[str, Any] = {"color": "0.75", "linewidth": 0.9}
        if index in marked:
            text, colour = marked[index]
            style = {"color": figure_style.PALETTE[colour], "linewidth": 1.8}
            style |= {"label": f"{name} {text} ({drift[index]:.2f})", "zorder": 3}
        left.plot(steps, traces.values[:, SHOWN, index], **style)
    left.set(xlabel="Round", ylabel=f"Value at client {SHOWN}", title="Values after local training")
    left.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16))
    sizes, tensors = np.abs(traces.values[-1]), [name.split("[")[0] for name in traces.entries]
    for index, tensor in enumerate(dict.fromkeys(tensors)):
        columns = [index for index, name in enumerate(tensors) if name == tensor]
        right.plot(
            sizes[:, columns].ravel(),
            traces.stability[:, columns].ravel(),
            figure_style.MARKERS[index],
            color=figure_style.PALETTE[index],
            markersize=3.5,
            alpha=0.75,
            label=tensor.removesuffix(".weight"),
        )
    right.set(xlabel="Absolute value", title="All clients", ylim=(-0.03, 1.03))
    right.set_ylabel("Drift (0 settled, 1 moves one way)")
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return canvas


def size_claim(traces: Traces | None, scale: str) -> Claim:
    """Return the claim of section 2 that large parameters may be settled while small ones move."""
    rho, detail = float("nan"), "no traces"
    if traces is not None:
        points = _points(traces)
        detail = "all parameters are equally stable"
        if points["stability"].nunique() > 1:
            rho = float(stats.spearmanr(points["value"].abs(), points["stability"]).statistic)
            detail = (
                f"Spearman's ρ = {rho:.2f} over {len(points)} parameters of {len(traces.labels)}"
                " clients (one seed)"
            )
    return claim(
        "size-no-guide-to-stability",
        "Absolute value is no guide to stability (rank correlation between −0.5 and 0.5)",
        abs(rho) < 0.5 if rho == rho else None,
        detail,
        scale,
        place="2",
    )


# -- figure 2 --------------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Result:
    """Return figure 2: drift per parameter and client, ordered by label."""
    title = "Figure 2: parameter stability among clients"
    what = (
        "Every client holds images of one class; clients are ordered by it. Dark: settled; light:"
        " moves one way."
    )
    return _figure(evidence, "fig2", title, what, draw_stability, labelled_points, label_claim)


def labelled_points(traces: Traces) -> pd.DataFrame:
    """Return every client's size and drift per entry, and its class."""
    return _points(traces).assign(label=np.repeat(traces.labels, len(traces.entries)))


def draw_stability(new_canvas: NewCanvas, traces: Traces) -> Canvas:
    """Draw a heat map with a line between classes; dark entries are settled."""
    canvas = new_canvas(5.9, 5.2)
    (panel,) = figure_style.panels(canvas, 1, 1)
    order = np.argsort(traces.labels, kind="stable")
    labels = traces.labels[order]
    plots.heat(panel, 1 - traces.stability[order], top=1.0)
    names = [name.replace(".weight", "") for name in traces.entries]
    panel.set_xticks(range(len(names)), names, rotation=40, ha="right")
    starts = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
    for start in starts[1:]:
        panel.axhline(start - 0.5, color="0.8", linewidth=1)
    stops = [*starts[1:], len(labels)]
    panel.set_yticks(
        [(a + b - 1) / 2 for a, b in zip(starts, stops, strict=True)],
        [f"class {labels[a]}" for a in starts],
    )
    panel.set_xlabel("Parameter")
    canvas.colorbar(
        plots.heat_scale(1.0), ax=panel, label="1 − drift (1 settled, 0 moves one way)", shrink=0.9
    )
    return canvas


def label_claim(traces: Traces | None, scale: str) -> Claim:
    """Return the claim of section 2 that equal labels have equal parameters settled."""
    answer, detail = None, "no traces"
    if traces is not None:
        gaps = np.abs(traces.stability[:, None] - traces.stability[None]).mean(2)
        same_label = traces.labels[:, None] == traces.labels[None]
        others = ~np.eye(len(traces.labels), dtype=bool)
        within, between = gaps[same_label & others], gaps[~same_label]
        detail = "no two clients share a label, or all do"
        if len(within) and len(between):
            answer = bool(within.mean() < between.mean())
            detail = (
                f"mean difference of stability {within.mean():.3f} within a class,"
                f" {between.mean():.3f} between classes (one seed)"
            )
    return claim(
        "same-label-same-stability",
        "Clients with data of the same label have more similar stability than others",
        answer,
        detail,
        scale,
        place="2",
    )
