"""Curves by round, ours and the authors'; figure 5, whose runs are those of Table V.

The authors' repository has earlier versions of the figures 2, 3 and 5 as vector graphics, which
`studies/figures.py` read (uglyghost/FedOBP_results at f64b10a). Their lines are logs: the accuracy
of a round's participants before they train, smoothed by `smooth`, with momentum 0.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import savgol_filter

from repfl.paper_tables.core import forms, our_numbers
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, places
from repfl.paper_tables.core.published import drawn_lines
from repfl.paper_tables.core.result import Figure
from repfl.paper_tables.fedobp import accuracy, logs
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    FOLDER,
    OURS,
    PAPER,
    PRINTED,
    SAME_DATA,
    key,
)

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


# -- figure 5 --------------------------------------------------------------------------------------

BESIDE_LOGS = (
    "Hollow: the authors' logs, accuracy of all clients at the four evaluations of 400 rounds, with"
    " momentum 0.7, one seed (`author_logs.csv`). Ours is accuracy of a round's participants: the"
    " two are not to be subtracted."
)
NOT_DRAWN = (
    f"Runs of fewer than {WINDOW} scored rounds are not smoothed; of those below the paper scale,"
    " which are far shorter than 400 rounds, lines of two points are in the data and not drawn."
)
WIDE = {"linewidth": 3.2, "alpha": 0.45}
"""So that NoNorm shows on both sides of GlobalNorm, which lies on top of it."""


AS_DEFINED = ", as defined (ours)"


def norm_curves(evidence: Evidence) -> pd.DataFrame:
    """Return our curves under four normalisations, as logged and as defined, and the logs."""
    parts = []
    for way, tail in (("as logged", "-m0.7"), ("as defined", "")):
        names = {n if tail else f"{n}, {way}": n for n in accuracy.NORMS}
        shorts = {key(short, tail=tail): short for short in DATASETS}
        ours = over_seeds(run_curves(evidence, list(names), list(shorts)))
        ours = ours.assign(kind=f"ours, {way}", label=ours["label"].map(names))
        parts.append(ours.assign(short=ours["column"].map(shorts)))
    if evidence.scale != "smoke":  # digits stand beside no log
        names = {f"{OURS} {name}": name for name in accuracy.NORMS}
        logged = logs.curves("Dir(0.1)").query("method in @names")
        shorts = {printed: short for short, printed in PRINTED.items()}
        labels = {"label": logged["method"].map(names), "short": logged["dataset"].map(shorts)}
        parts.append(logged[["round", "mean"]].assign(kind=plots.LOG, **labels))
    both = pd.concat(parts, ignore_index=True)
    return both.sort_values(["kind", "short", "label", "round"], kind="stable", ignore_index=True)


def fig5(evidence: Evidence) -> Figure:
    """Return a panel per data set with the authors' logs and ours in the same axes."""
    data = norm_curves(evidence)
    defined = data["kind"].str.endswith("as defined")
    shown = data.assign(label=data["label"] + np.where(defined, AS_DEFINED, ""))
    if evidence.scale != "smoke":
        points = shown.groupby(["short", "kind", "label"])["round"].transform("size")
        shown = shown[(shown["kind"] == plots.LOG) | (points > 2)]
    styles = {
        f"{name}{way}": {**figure_style.look(index, dash), **(WIDE if index == 0 else {})}
        for dash, way in enumerate(("", AS_DEFINED))
        for index, name in enumerate(accuracy.NORMS)
    }
    titles = forms.titles(evidence, DATASETS)
    logged = {short: key(short, tail="-m0.7") for short in DATASETS}
    frame = evaluations(
        evidence, {f"{OURS} {norm}": norm for norm in accuracy.NORMS}, logged, "Dir(0.1)"
    )
    judged = judge_all(evidence, FOLDER, "fig5", frame)
    return forms.figure(
        evidence,
        (PAPER, "fig5"),
        "Figure 5: convergence under four normalisations",
        "FedOBP under four normalisations, in the authors' logs and ours. Solid: as logged by the"
        " authors; dashed: as defined. NoNorm and GlobalNorm coincide.",
        lambda new_canvas: plots.curve_panels(
            new_canvas, shown, titles, list(styles), by="short", styles=styles
        ),
        data.assign(column=data["short"].map(DATASETS)).drop(columns="short"),
        notes=(
            COHORT,
            BESIDE_LOGS,
            NOT_DRAWN,
            *forms.at_scale(evidence, smoke=SAME_DATA),
            accuracy.TWICE,
            *forms.missing(evidence, accuracy.NORMS, list(logged.values())),
        ),
        claims=[replace(each, why=f"{each.why}; {LOGS}") for each in judged],
        findings=_run_norms(data) if evidence.scale != "smoke" else (),
    )


def _run_norms(data: pd.DataFrame) -> tuple[str, ...]:
    """Return which normalisations have runs of ours, and on how many data sets, in a sentence."""
    ours = data[data["kind"] != plots.LOG]
    counts = ours.groupby(["label", "kind"])["short"].nunique().reset_index().to_dict("records")
    parts = [
        f"{each['label']} ({each['kind'].removeprefix('ours, ')}) on {each['short']} of"
        f" {len(DATASETS)} data sets"
        for each in counts
    ]
    return (f"Our runs: {'; '.join(parts) or 'none'}.",)
