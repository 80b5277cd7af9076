"""Our runs beside the curves of figures 2 and 3 in the authors' repository, round by round.

The drawn curves are logs with momentum 0.7. Our runs of Tables III and IV have none; runs of sixty
rounds have 0.7 and 0.9.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from repfl.paper_tables.core import builders
from repfl.paper_tables.core.evidence import Evidence
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


def our_curves(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return our smoothed curves: dataset, method, momentum, seed, round, value."""
    rows = {name: (name, "0") for name in DRAWN}
    for momentum in SHORT:
        rows |= {f"{n}, momentum {momentum}, 60 rounds": (n, momentum) for n in DRAWN}
    columns = {key(s, alpha, tail): PRINTED[s] for s in DATASETS for tail in ("", "-60")}
    runs = builders.run_curves(evidence, list(rows), list(columns), POINT)
    runs = runs.sort_values(["id", "round"], kind="stable")
    runs["value"] = runs.groupby("id")["value"].transform(lambda part: smooth(part.to_numpy(float)))
    named = pd.DataFrame([rows[label] for label in runs["label"]], columns=["method", "momentum"])
    runs = runs.reset_index(drop=True).join(named)
    return runs.assign(dataset=runs["column"].map(columns))[[*KEYS, "seed", "round", "value"]]


def compared(evidence: Evidence, alpha: str) -> pd.DataFrame:
    """Return ours minus the drawn curve over the early rounds, a row per data set, method and
    momentum, with the columns of `trajectory.COLUMNS`.
    """
    figure = {"0.1": "fig2", "0.5": "fig3"}[alpha]
    parts = []
    # smaller scales have other clients
    curves = (
        our_curves(evidence, alpha) if evidence.scale == "paper" else pd.DataFrame(columns=KEYS)
    )
    for names, runs in curves.groupby(KEYS, sort=False):
        dataset, method, momentum = map(str, names)
        line = drawn(figure, dataset, method)
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


def findings(evidence: Evidence, alpha: str) -> tuple[str, ...]:
    """Return how our runs lie beside the drawn curves under each momentum, in sentences."""
    frame = compared(evidence, alpha)
    parts = []
    for momentum, group in frame.groupby("momentum"):
        off = group["difference"]
        parts.append(
            f"with momentum {momentum} {len(group)} curve{'s' * (len(group) > 1)}, median"
            f" {off.median():+.2f} points ({off.min():+.2f} to {off.max():+.2f})"
        )
    if not parts:
        return ()
    first, last = EARLY
    return (
        f"Rounds {first} to {last}, ours minus the drawn curve, which is a log with momentum"
        f" {LOGGED}: {'; '.join(parts)}.",
    )


def notes(evidence: Evidence, alpha: str) -> tuple[str, ...]:
    """Return the comparison of every curve, a note per data set."""
    lines = []
    for dataset, curves in compared(evidence, alpha).groupby("dataset", sort=False):
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
