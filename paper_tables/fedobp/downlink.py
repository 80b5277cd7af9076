"""Figure 7: accuracy against what goes down the wire."""

from __future__ import annotations

from math import isfinite, nan

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.published import select
from repfl.paper_tables.core.result import Claim, Figure, NewCanvas, claim
from repfl.paper_tables.fedobp import points, sweeps
from repfl.paper_tables.fedobp.settings import DATASETS, PAPER, SAME_DATA, SWEPT

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
STABLE = 0.9


def fig7(evidence: Evidence) -> Figure:
    """The I_O sweep of figure 4 against its measured downlink."""
    data = points.planned(evidence).sort_values(["column", "q"], kind="stable", ignore_index=True)
    smoke = evidence.scale == "smoke"
    logged = points.logs(evidence).query("score == 'I_O'").iloc[: 0 if smoke else None]
    return forms.figure(
        evidence,
        (PAPER, "fig7"),
        "Figure 7: accuracy against the downlink",
        "FedOBP's I_O at Dir(0.1): accuracy against the share of a full model that goes down.",
        lambda sheet: draw(sheet, data, logged),
        data.drop(columns=["score", "version", *points.OURS_ALONE]),
        notes=(
            BILLED,
            NOT_SAVED,
            WHOLE,
            *forms.at_scale(evidence, smoke=SAME_DATA),
            *sweeps.absent(evidence),
        ),
        claims=claims(evidence, data),
        alt="Accuracy against the share of the model that is sent to clients, a line per data set.",
    )


def draw(sheet: NewCanvas, data: pd.DataFrame, logged: pd.DataFrame) -> Canvas:
    """Draw a line per data set. Hollow: the authors' logged sweep, whose ratio is q."""
    canvas = sheet(8, 5)
    axes = canvas.subplots()
    for index, short in enumerate(SWEPT):
        style = figure_style.look(index, 0) | {"markersize": 5}
        line = data[(data["column"] == short) & data["ours"].notna()]
        if len(line):
            axes.plot(sweeps.nines(line["ratio"]), line["ours"], label=DATASETS[short], **style)
        there = logged[logged["column"] == short].sort_values("q")
        if len(there):
            hollow = style | {"markerfacecolor": "white", "linewidth": 0.6}
            label = f"{DATASETS[short]}, authors' logs"
            axes.plot(sweeps.nines(there["q"]), there["printed"], label=label, **hollow)
    axes.set_ylabel("Accuracy (%)")
    sweeps.nines_axis(axes, "downlink, as a share of a full model")
    figure_style.legend_below(canvas, [axes], columns=3)
    return canvas


# -- section V-G -----------------------------------------------------------------------------------


def claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims on the uplink, and on where accuracy is stable."""
    return _uplink(evidence), _drop(evidence, data)


def _uplink(evidence: Evidence) -> Claim:
    done = evidence.cells[evidence.cells["status"] == "done"].drop_duplicates("id")
    shares = {round(points.ratio(cell, direction="up"), 9) for _, cell in done.iterrows()}
    measured = ", ".join(f"{share:g}" for share in sorted(shares)) or "no run"
    return claim(
        "uplink-whole-model",
        "Every participant uploads the whole model",
        shares == {1.0} if shares else None,
        f"uplink as a share of N per client and round, measured: {measured}",
        evidence.scale,
        place="V-G",
        sources=tuple(select(evidence.published, metric="uplink_per_client_round")["source"]),
        exact=True,
    )


def _drop(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """Return the claim that accuracy is higher at every ratio up to 0.9 than at 1, in the logged
    sweep and in ours.
    """
    rows = select(evidence.published, table="text V-G", metric="stable_downlink_ratio_range")
    logged = points.logs(evidence)
    in_logs, logged_words = _drops(logged[logged["score"] == "I_O"], "printed")
    in_ours, our_words = _drops(data, "ours")
    return claim(
        "stable-to-nine-tenths",
        "On most data sets accuracy at ratios of 0 to 0.9 lies above that at 1.0",
        in_ours,
        f"ours (1 seed): {our_words or 'no complete sweep'}; logged: {logged_words}",
        evidence.scale,
        place="V-G",
        printed=in_logs,
        sources=tuple(rows["source"]),
    )


def _drops(data: pd.DataFrame, side: str) -> tuple[bool | None, str]:
    """Per data set the range of accuracies up to 0.9, and the accuracy at one."""
    parts, holds = [], []
    for short in SWEPT:
        line = data[data["column"] == short].dropna(subset=[side])
        inner, end = (
            line[line["q"] <= STABLE][side].astype(float),
            line[line["q"] == 1][side].astype(float),
        )
        low, high, last = (
            (inner.min(), inner.max(), end.iloc[-1]) if len(inner) and len(end) else (nan, nan, nan)
        )
        if isfinite(low):
            holds.append(bool(low > last))
            parts.append(f"{DATASETS[short]} {low:.2f} to {high:.2f}, then {last:.2f}")
    return (2 * sum(holds) > len(holds) if holds else None), "; ".join(parts)
