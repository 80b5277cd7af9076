"""Figure 7: the sweep of I_O against what goes down the wire."""

from __future__ import annotations

from math import nan

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, NewCanvas
from repfl.paper_tables.fedobp import optima, sweeps
from repfl.paper_tables.fedobp.settings import DATASETS, PAPER, SAME_DATA, SWEPT
from repfl.paper_tables.fedobp.sweeps import nines, nines_axis

BILLED = (
    "The ratio is measured: float values that the ledger billed downwards, over all rounds, as a"
    " share of full models. On the wire there is also the position of each value (a bitmap, or a"
    " list where that is shorter), which the paper leaves out: `wire` in the data. README, 20."
)
NOT_SAVED = (
    "In the authors' code the client computes the mask from a full download, so its runs save"
    " nothing. README, 20."
)
WHOLE = (
    "In the first round all scores are equal and everybody is sent a whole model, and entries that"
    " never moved tie at the lowest score and stay global, so the measured ratio exceeds q, most of"
    " all in short runs of small models."
)


def fig7(evidence: Evidence) -> Figure:
    """The I_O sweep of figure 4 against its measured downlink."""
    data = sweeps.planned(evidence).sort_values(["column", "q"], kind="stable", ignore_index=True)
    logged = sweeps.logs(evidence).query("score == 'I_O'")
    shown = logged.iloc[: 0 if evidence.scale == "smoke" else None]
    done = evidence.cells[evidence.cells["status"] == "done"].drop_duplicates("id")
    shares = {round(sweeps.ratio(cell, direction="up"), 9) for cell in done.to_dict("records")}
    return forms.figure(
        evidence,
        (PAPER, "fig7"),
        "Figure 7: accuracy against the downlink",
        "FedOBP's I_O at Dir(0.1): accuracy against the share of a full model that goes down.",
        lambda new_canvas: draw_downlink(new_canvas, data, shown, beside=evidence.scale == "paper"),
        data.drop(columns=["score", "version", *sweeps.OURS_ALONE]),
        notes=(
            BILLED,
            NOT_SAVED,
            WHOLE,
            *forms.at_scale(evidence, smoke=SAME_DATA),
            *sweeps.absent(evidence),
        ),
        claims=optima.fig7_claims(evidence, data, logged, shares),
        findings=best_share(data) if evidence.scale != "smoke" else (),
        alt="Accuracy against the share of the model that is sent to clients, a line per data set.",
    )


def best_share(data: pd.DataFrame) -> tuple[str, ...]:
    """Return where on the axis each data set's accuracy is highest and where it ends."""
    parts = []
    for short, line in data.dropna(subset=["ours"]).groupby("column", sort=False):
        line = line.sort_values("ratio")
        top, end = line.iloc[int(line["ours"].to_numpy(float).argmax())], line.iloc[-1]
        parts.append(
            f"{DATASETS[str(short)]} is highest where {top['ratio']:.3g} of a model goes down"
            f" ({top['ours']:.1f} %), and has {end['ours']:.1f} % at {end['ratio']:.3g}"
        )
    return (f"{'; '.join(parts)}.",) if parts else ()


MAX_GAP = 3
"""Units of `nines` that a line spans: across more it would suggest points that were not run."""


def _with_gaps(x: pd.Series, y: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    far = np.flatnonzero(np.diff(x) > MAX_GAP) + 1
    return np.insert(x.to_numpy(float), far, nan), np.insert(y.to_numpy(float), far, nan)


def draw_downlink(
    new_canvas: NewCanvas, data: pd.DataFrame, logged: pd.DataFrame, *, beside: bool
) -> Canvas:
    """Draw a line per data set. Hollow: the authors' logged sweep, whose ratio is q."""
    canvas, ours = new_canvas(9, 5), "ours" if beside or logged.empty else "ours (not comparable)"
    axes = canvas.subplots()
    for index, short in enumerate(SWEPT):
        style = figure_style.look(index, 0) | {"markersize": 5}
        line = data[(data["column"] == short) & data["ours"].notna()]
        if len(line):
            points = _with_gaps(nines(line["ratio"]), line["ours"])
            axes.plot(*points, label=f"{DATASETS[short]}, {ours}", **style)
        there = logged[logged["column"] == short].sort_values("q")
        if len(there):
            hollow = style | {"markerfacecolor": "white", "linewidth": 0.6}
            label = f"{DATASETS[short]}, authors' logs"
            axes.plot(*_with_gaps(nines(there["q"]), there["printed"]), label=label, **hollow)
    axes.set_ylabel("Accuracy (%)")
    nines_axis(axes, "downlink, as a share of a full model (logarithmic in 1 − share above 0.9)")
    figure_style.legend_below(canvas, [axes], columns=3)
    return canvas
