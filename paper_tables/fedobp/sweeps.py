"""Figure 4: accuracy against the quantile."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, Sheet
from repfl.paper_tables.core.statistics import spread
from repfl.paper_tables.core.verdict import Kind
from repfl.paper_tables.fedobp.curves import gaps
from repfl.paper_tables.fedobp.optima import SCORES, VERSIONS, fig4_claims
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    PAPER,
    PRINTED,
    SINGLE,
    SWEPT,
    key,
    smoke_note,
)

SIGNS = {"I_G": "$I_G$", "I_F": "$I_F$", "I_O": "$I_O$"}
MARK = {"I_G": "s", "I_F": "^", "I_O": "o"}
LOGS = "author logs (Fig 4)"
LOGGED_AS = {"I_G": "I_G", "I_F": "I_F", "I_O": "I_O(old score)"}
JUDGED = ("published", *tables.NO_VERDICT, "source")
FIELDS = [
    "column",
    "score",
    "version",
    "rounds",
    "q",
    "ours",
    "std",
    "seeds",
    "low",
    "high",
    "df",
    *JUDGED,
    "ratio",
    "wire",
]
NEEDED = (
    *("row", "id", "artefact", "method", "seed", "reason", "floor.pooled", "recipe.partition.seed"),
    *(f"recipe.evaluation.{name}" for name in ("point", "rule", "average")),
    *(
        "column",
        "status",
        "value",
        "parameters",
        "hp.q",
        "hp.score",
        "hp.quantile_scope",
        "recipe.clients",
        "recipe.participation",
        "recipe.training.rounds",
    ),
    *("traffic.down_values", "traffic.down_codes"),
)
OURS_ALONE = ("floor", "global", "rule", "expected")
"""What a verdict needs of ours beside what is shown."""
SETTING = re.compile(r"rounds=(\d+); q=([\d.]+)")
POSITION = 6.8
"""Where a quantile of exactly one stands on an axis of −log10(1 − q)."""


SHORTS = {
    key(short, tail=tail): short for short in SWEPT for tail in ("-sweep", "-sweep-m0.7", "-m0.7")
}
"""The data set of every recipe that is swept."""
SCORE_OF = {"grad": "I_G", "fisher": "I_F", "obp": "I_O", "obp_legacy": "I_O"}
"""Our scores by their names in the paper."""


def logged_way(cell: Mapping[Any, Any]) -> bool:
    """Whether a cell runs as the authors' logs were made: the first score, quantiles per tensor."""
    return cell["hp.score"] == "obp_legacy" or cell["hp.quantile_scope"] == "tensor"


def points(evidence: Evidence) -> pd.DataFrame:
    """One line per data set, score, kind, number of rounds and quantile that is planned: ours, and
    what went down the wire.
    """
    cells = evidence.cells.reindex(columns=list(NEEDED))
    cells = cells[cells["column"].isin(list(SHORTS))]
    rows, plain = [], cells.to_dict("records")  # at once: a frame of a few cells takes as long
    for places in cells.groupby(["row", "column"], sort=False).indices.values():
        first, planned = plain[places[0]], [plain[place] for place in places]
        done = [cell for cell in planned if cell["status"] == "done"]
        ours = tables.measure(evidence, cells.iloc[places])
        rows.append(
            ours
            | {
                "column": SHORTS[str(first["column"])],
                "score": SCORE_OF[str(first["hp.score"])],
                "version": VERSIONS[logged_way(first)],
                "rounds": int(first["recipe.training.rounds"]),
                "q": float(first["hp.q"]),
                "ratio": spread([ratio(cell) for cell in done]).mean,
                "wire": spread([ratio(cell, codes=True) for cell in done]).mean,
            }
        )
    return pd.DataFrame(rows, columns=[*(f for f in FIELDS if f not in JUDGED), *OURS_ALONE])


def ratio(
    cell: Mapping[Any, Any] | pd.Series, *, direction: str = "down", codes: bool = False
) -> float:
    """Bytes that went down (or up), as a share of a full model for every participant of every
    round.
    """
    participants = max(
        1, round(float(cell["recipe.participation"]) * float(cell["recipe.clients"]))
    )
    full = 4.0 * float(cell["parameters"]) * participants * float(cell["recipe.training.rounds"])
    return (
        float(cell[f"traffic.{direction}_values"])
        + (float(cell[f"traffic.{direction}_codes"]) if codes else 0.0)
    ) / full


def logs(evidence: Evidence) -> pd.DataFrame:
    """The authors' logged sweeps in the same form."""
    rows = evidence.published[evidence.published["table"] == LOGS]
    names = {printed: short for short, printed in PRINTED.items()}
    scores = {logged: score for score, logged in LOGGED_AS.items()}
    found = []
    for _, row in rows.iterrows():
        match = SETTING.search(str(row["setting"]))
        if match is None or row["dataset"] not in names or row["method"] not in scores:
            continue
        place = {
            "column": names[row["dataset"]],
            "score": scores[row["method"]],
            "version": VERSIONS[1],
        }
        found.append(
            {
                **place,
                "rounds": int(match[1]),
                "q": float(match[2]),
                "published": row["value"],
                "source": row["source"],
            }
        )
    return pd.DataFrame(
        found, columns=["column", "score", "version", "rounds", "q", "published", "source"]
    )


def sweep(evidence: Evidence) -> pd.DataFrame:
    """Ours beside the logged points, with a verdict on each of these; points that the scale leaves
    out are missing.
    """
    ours, printed = points(evidence), logs(evidence)
    where = ["column", "score", "version", "q"] + (["rounds"] if evidence.scale == "paper" else [])
    if evidence.scale != "paper":
        ours = ours.rename(columns={"rounds": "own rounds"})
    data = printed.merge(ours, on=where, how="outer", sort=True)
    data["rounds"] = (
        data["rounds"].fillna(data["own rounds"]) if "own rounds" in data else data["rounds"]
    )
    data["source"] = data["source"].fillna("")
    rows = ({str(name): value for name, value in row.items()} for _, row in data.iterrows())
    judged = pd.DataFrame([_judged(evidence.scale, row) for row in rows], index=data.index)
    return data.assign(**judged)[FIELDS].sort_values(
        ["column", "score", "version", "rounds", "q"], kind="stable", ignore_index=True
    )


def _judged(scale: str, row: dict[Any, Any]) -> dict[str, Any]:
    """A point with its verdict; one that is planned nowhere at this scale has no seeds."""
    missing: dict[str, Any] = {
        "seeds": 0,
        "floor": nan,
        "global": False,
        "rule": "",
        "expected": None,
    }
    known = {
        name: missing[name] if isinstance(row[name], float) and isnan(row[name]) else row[name]
        for name in missing
    }
    cell = row | known | {"scale": scale, "published_std": nan, "seeds": int(known["seeds"])}
    found = tables.conclude(cell, "%", Kind.LOGGED, printing=SINGLE)
    return {name: found[name] for name in tables.NO_VERDICT}


# -- figure 4 --------------------------------------------------------------------------------------

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
