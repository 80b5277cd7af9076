"""The points of the quantile sweeps: ours, and those in the authors' logs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isnan, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import our_numbers, tables
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.statistics.intervals import spread
from repfl.paper_tables.core.statistics.verdict import Kind, Verdict
from repfl.paper_tables.fedobp.optima import VERSIONS
from repfl.paper_tables.fedobp.settings import PRINTED, SINGLE, SWEPT, key

LOGS = "author logs (Fig 4)"
LOGGED_AS = {"I_G": "I_G", "I_F": "I_F", "I_O": "I_O(old score)"}
WHY = (
    "inferred: the logged sweep ran on two workers that do not share clients' models; in one"
    " process ours falls less or not at all, and a log has 86.36 at q = 0.9999 (README, The"
    " quantile)"
)
JUDGED = ("printed", *tables.NO_VERDICT, "source")
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
    "by_seed",
    *JUDGED,
    "ratio",
    "wire",
]
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
    participants = max(
        1, round(float(cell["recipe.participation"]) * float(cell["recipe.clients"]))
    )
    full = 4.0 * float(cell["parameters"]) * participants * float(cell["recipe.training.rounds"])
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
    missing: dict[str, Any] = {
        "seeds": 0,
        "floor": nan,
        "one_model": False,
        "rule": "",
        "borrowed": None,
    }
    values = {
        name: missing[name] if isinstance(row[name], float) and isnan(row[name]) else row[name]
        for name in missing
    }
    cell = row | values | {"scale": scale, "printed_std": nan, "seeds": int(values["seeds"])}
    result = tables.conclude(cell, "%", Kind.LOGGED, printing=SINGLE)
    return {name: result[name] for name in tables.NO_VERDICT}
