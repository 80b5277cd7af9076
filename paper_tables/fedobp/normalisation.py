"""Figure 5: convergence under four normalisations of the score, whose runs are Table V's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure
from repfl.paper_tables.fedobp import accuracy, logs
from repfl.paper_tables.fedobp.curves import (
    COHORT,
    LOGS,
    WINDOW,
    evaluations,
    over_seeds,
    run_curves,
)
from repfl.paper_tables.fedobp.settings import (
    DATASETS,
    FOLDER,
    OURS,
    PAPER,
    PRINTED,
    SAME_DATA,
    key,
)

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
