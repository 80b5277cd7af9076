"""Figure 7: accuracy against what goes down the wire."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.published import told
from repfl.paper_tables.core.result import Claim, Figure, Sheet
from repfl.paper_tables.fedobp import sweeps
from repfl.paper_tables.fedobp.settings import DATASETS, PAPER, SWEPT, smoke_note

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
    data = sweeps.points(evidence).sort_values(["column", "q"], kind="stable", ignore_index=True)
    labels, columns = (
        list(dict.fromkeys(evidence.cells["row"])),
        list(dict.fromkeys(evidence.cells["column"])),
    )
    return Figure(
        PAPER,
        "fig7",
        "Figure 7: accuracy against the downlink",
        captions.caption(
            evidence,
            "FedOBP's I_O at Dir(0.1): accuracy against the share of a full model that goes down.",
            accuracy=False,
        ),
        evidence.scale,
        (
            BILLED,
            NOT_SAVED,
            WHOLE,
            *smoke_note(evidence.scale),
            *sweeps.absent(evidence, labels, columns),
        ),
        claims(evidence, data),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw(sheet, data),
        data=data.drop(columns=["score", "version", *sweeps.OURS_ALONE]),
        alt=(
            "Accuracy against the share of the model that is sent to clients, over the whole range"
            " and near one, one line per data set."
        ),
    )


def draw(sheet: Sheet, data: pd.DataFrame) -> Canvas:
    """The whole range, then the end where almost everything is sent: by ratio, and by what stays
    behind.
    """
    canvas = sheet(12, 4.2)
    whole, tenth, near = figures.panels(canvas, 3, 3)
    for place, short in enumerate(SWEPT):
        line = data[(data["column"] == short) & data["ours"].notna()]
        look = {
            **figures.look(place),
            "marker": figures.MARKERS[place],
            "markersize": 7 - place,
            "linewidth": 1.4,
            "label": DATASETS[short],
        }
        if len(line):
            whole.plot(line["ratio"], line["ours"], **look)
            end = line[line["ratio"] >= STABLE]
            tenth.plot(end["ratio"], end["ours"], **look)
            near.plot(sweeps.near_one(line["q"]), line["ours"], **look)
    _finish((whole, tenth, near), data)
    figures.legend_below(canvas, whole, columns=len(SWEPT))
    return canvas


def _finish(axes: Sequence[Axes], data: pd.DataFrame) -> None:
    whole, tenth, near = axes
    for panel, title in zip(
        axes, ("Whole range", "Nine tenths and more", "By what stays behind"), strict=True
    ):
        panel.set_title(title)
        panel.set_xlabel("Downlink ratio")
        panel.set_ylim(*figures.limits(data["ours"].to_numpy(dtype=float)))
    near.set_xlabel("1 − q")
    whole.set_xlim(-0.03, 1.03)
    tenth.set_xlim(STABLE - 0.003, 1.003)
    whole.set_ylabel("Accuracy (%)")
    sweeps.log_axis(near)


# -- section V-G -----------------------------------------------------------------------------------


def claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """The uplink, and where accuracy is stable."""
    return _uplink(evidence), _drop(evidence, data)


def _uplink(evidence: Evidence) -> Claim:
    done = evidence.cells[evidence.cells["status"] == "done"].drop_duplicates("id")
    shares = {round(sweeps.ratio(cell, direction="up"), 9) for _, cell in done.iterrows()}
    said = ", ".join(f"{share:g}" for share in sorted(shares)) or "no run"
    return Claim(
        "uplink-whole-model",
        "Every participant uploads the whole model",
        shares == {1.0} if shares else None,
        f"uplink as a share of N per client and round, measured: {said}",
        evidence.scale,
        sources=tuple(told(evidence.published, metric="uplink_per_client_round")["source"]),
        free=True,
    )


def _drop(evidence: Evidence, data: pd.DataFrame) -> Claim:
    """Whether accuracy is higher at every ratio up to 0.9 than at 1: in print (the logged sweep)
    and in ours.
    """
    rows = told(evidence.published, table="text V-G", metric="stable_downlink_ratio_range")
    logged = sweeps.logs(evidence)
    printed, said = _drops(logged[logged["score"] == "I_O"], "published")
    found, mine = _drops(data, "ours")
    return Claim(
        "stable-to-nine-tenths",
        "On most data sets accuracy at ratios of 0 to 0.9 lies above that at 1.0",
        found,
        f"ours (1 seed): {mine or 'no complete sweep'}; logged: {said}",
        evidence.scale,
        printed,
        tuple(rows["source"]),
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
