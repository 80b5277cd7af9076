"""Curves by round, ours and the authors', and how far apart they lie.

The authors' repository has earlier versions of the figures 2, 3 and 5 as vector graphics, which
`studies/figures.py` read (uglyghost/FedOBP_results at f64b10a). Their lines are logs: the accuracy
of a round's participants before they train, smoothed by `smooth`, with momentum 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import savgol_filter

from repfl.paper_tables.core import forms, our_numbers
from repfl.paper_tables.core.evidence import Evidence, places
from repfl.paper_tables.core.published import drawn_lines
from repfl.paper_tables.core.result import joined_gaps
from repfl.paper_tables.core.statistics.curve_gap import compare_curves
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.settings import ALPHAS, DATASETS, DRAWN, FOLDER, PAPER, PRINTED, key

POINT = "start/pooled"
WINDOW, ORDER = 20, 2
"""Of the Savitzky-Golay filter."""
COHORT = (
    "Lines: accuracy of the round's participants before they train, pooled, smoothed by a"
    " Savitzky-Golay filter of 20 rounds and order 2, as the published script does; ten clients are"
    " a noisy sample of a hundred. The tables score all clients. README, 30."
)


def smooth(values: np.ndarray) -> np.ndarray:
    """Smooth as the figures are; curves shorter than the window stay as they are."""
    return values if len(values) < WINDOW else np.asarray(savgol_filter(values, WINDOW, ORDER))


def drawn(figure: str, dataset: str, line: str) -> pd.Series:
    """Return one curve of the authors' figures by round. Epoch 0 of a figure is round 1."""
    curve = drawn_lines(FOLDER / "published")[figure, dataset, line]
    return curve.set_axis(curve.index + 1)


def _smoothed(curve: pd.Series) -> np.ndarray:
    return smooth(curve.to_numpy(float))


def run_curves(evidence: Evidence, labels: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return every run's curve as stored, and smoothed as `mean`."""
    runs = forms.run_curves(evidence, labels, columns, POINT)
    runs = runs.sort_values(["id", "round"], kind="stable", ignore_index=True)
    lines = runs.groupby(["column", "label", "id"])["value"]  # toy data sets share their runs
    return runs.assign(mean=lines.transform(_smoothed))


def over_seeds(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the means over seeds of what `run_curves` returns."""
    lines = runs.groupby(["column", "label"])
    seeds = lines["id"].nunique().rename("seeds").reset_index()
    means = runs.groupby(["column", "label", "round"])[["value", "mean"]].mean().reset_index()
    return means.merge(seeds)[["column", "label", "round", "value", "seeds", "mean"]]


# -- ours beside the drawn curves ------------------------------------------------------------------

FIGURES = {"0.1": "fig2", "0.5": "fig3"}
EARLY = (15, 50)
"""In runs of sixty rounds the last ten are smoothed at an edge."""
WINDOWS = (EARLY, (51, 100), (101, 400))


def gaps(runs: pd.DataFrame) -> pd.DataFrame:
    """Return how far runs of `run_curves` lie from the drawn curve of their column and label, a
    line per momentum and window; columns `CURVE_GAP_FIELDS`. A window counts if both curves have
    most of it.
    """
    places = {key(short, alpha): (short, alpha) for alpha in ALPHAS for short in DATASETS}
    ordered = {"column": list(places), "label": list(DRAWN)}
    lines = runs.assign(**{name: pd.Categorical(runs[name], ordered[name]) for name in ordered})
    parts = []
    for names, each in lines.groupby([*ordered, "momentum"], observed=True):
        column, label, momentum = map(str, names)
        short, alpha = places[column]
        line = drawn(FIGURES[alpha], PRINTED[short], label)
        found = compare_curves(each[["seed", "round"]].assign(value=each["mean"]), line, WINDOWS)
        setting, beside = f"momentum {momentum}", f"{PAPER}/{FIGURES[alpha]}"
        found = found.assign(row=label, column=column, setting=setting, beside=beside)
        parts.append(found[2 * found["rounds"] > found["last"] - found["first"]])
    return joined_gaps(parts)


def own_gaps(evidence: Evidence, columns: Sequence[str]) -> pd.DataFrame:
    """Return the same of the full runs behind a table, which have no momentum."""
    shown = columns if evidence.scale == "paper" else []
    return gaps(run_curves(evidence, DRAWN, shown).assign(momentum="0"))


# -- both evaluations of all clients, for sections V-C and V-E -------------------------------------

EVALUATIONS = {"first evaluation": "first", "best evaluation": "max"}
"""Of all clients, which the authors logged: the first tells who is fast, the best is printed."""
LOGS = "the authors' logs are four evaluations of one run with momentum 0.7"


def _evaluation(_: pd.Series, rounds: pd.DataFrame, pick: str) -> float:
    scored = 100 * rounds.sort_values("round")["value"].to_numpy()
    if not len(scored):
        return nan
    return float(scored[0] if pick == "first" else np.nanmax(scored))


def evaluations(
    evidence: Evidence, rows: Mapping[str, str], columns: Mapping[str, str], setting: str
) -> pd.DataFrame:
    """Return the long table of both evaluations: `rows` are the lines by their names in the logs,
    `columns` the recipes by data set.
    """
    logged = logs.curves(setting).groupby(["dataset", "method"])["mean"].agg(["first", "max"])
    planned, no_cells, cells = places(evidence), evidence.cells.iloc[:0], list[dict[str, Any]]()
    values = {when: partial(_evaluation, pick=how) for when, how in EVALUATIONS.items()}
    for short, column in columns.items():
        for name, row in rows.items():
            here = planned.get((row, column), no_cells)
            sides = our_numbers.from_rounds(evidence, here, values, "post_agg/pooled")
            there = (PRINTED[short], name)
            for when, how in EVALUATIONS.items():
                printed = float(logged[how][there]) if there in logged.index else nan
                place = {"row": row, "column": f"{short}, {when}", "printed": printed}
                cells.append(place | sides[when])
    return pd.DataFrame(cells)
