"""FedSelect's first forty rounds by several rules, beside the markers of Figure 2."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Figure, NewCanvas
from repfl.paper_tables.fedselect.drawn_curves import drawn
from repfl.paper_tables.fedselect.settings import CIFAR10, DATASETS, OURS, PAPER, SAME_DATA

COLUMN = "cifar10-40"
RULES = ("Algorithm 3, p = 0.05", "Code's rules, p = 0.25", "Algorithm 3, p = 0.25")
RATES = ("Code's rules, learning rate 0.1", "Code's rules, learning rate 0.02")
ROWS = (*RULES, *RATES)
PRINTED = "Figure 2"
ROUNDS = 40
NEAR = 2
"""Rounds to either side of a marker over which ours is averaged."""
READING = (
    "The markers of Figure 2 are read from its image, to about 0.1 points. Its round 0 is drawn at"
    " our round 1, the first that is scored."
)
POINTS = {"pre_agg/mean": "before averaging", "post_agg/mean": "after averaging"}


def fig2_start(evidence: Evidence) -> Figure:
    """Return the curves of three rules, one panel per scoring point."""
    data = start_curves(evidence)
    says = findings(data) if evidence.scale == "paper" else ()
    if evidence.scale == "paper":
        data = pd.concat([data, *(markers().assign(point=each) for each in POINTS.values())])
    data = data.assign(column=data["point"])
    return forms.figure(
        evidence,
        (PAPER, "fig2-start"),
        "FedSelect's first forty rounds beside Figure 2",
        "CIFAR-10, α = 0.30, the ten clients of Figure 4.",
        lambda sheet: draw(sheet, data),
        data,
        notes=(
            READING,
            *forms.missing(evidence, ROWS, [COLUMN]),
            *forms.at_scale(evidence, smoke=SAME_DATA),
        ),
        alt="Accuracy of FedSelect in the first forty rounds by three rules, before and after"
        " averaging.",
        accuracy=True,
        findings=says,
    )


def gaps(data: pd.DataFrame) -> pd.DataFrame:
    """Return ours minus the markers of Figure 2, by rule, scoring point and round; ours is the mean
    of the rounds within two of the marker's.
    """
    drawn_at = markers().set_index("round")["mean"]
    rounds = [each for each in drawn_at.index if each > NEAR]
    table = {
        (str(label), str(point), each): line.loc[
            line["round"].between(each - NEAR, each + NEAR), "mean"
        ].mean()
        - drawn_at[each]
        for (label, point), line in data.groupby(["label", "point"], sort=False)
        for each in rounds
    }
    frame = pd.Series(table, dtype=float).rename_axis(["label", "point", "round"])
    return frame.reset_index(name="gap")


def findings(data: pd.DataFrame) -> tuple[str, ...]:
    """Return how far the rules lie from the markers, once all have run."""
    if set(data["label"]) < set(RULES):
        return ()
    data = data[data["label"].isin(RULES)]
    curves = {
        f"{label} {point}": (float((gap**2).mean() ** 0.5), float(gap.mean()))
        for (label, point), gap in gaps(data).groupby(["label", "point"])["gap"]
    }
    near, (least, mean) = min(curves.items(), key=lambda curve: curve[1][0])
    most = max(rms for rms, _ in curves.values())
    return (
        f"{len(RULES)} rules, each scored before and after averaging (one seed): from round 10 on"
        f" they differ from Figure 2 by {least:.1f} to {most:.1f} points (root mean square). The"
        f" nearest is {near}, {mean:+.1f} on average.",
    )


def start_curves(evidence: Evidence) -> pd.DataFrame:
    """Return accuracy by round of every rule and scoring point."""
    parts = [
        forms.accuracy_curves(evidence, ROWS, [COLUMN], name).assign(point=point)
        for name, point in POINTS.items()
    ]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def markers() -> pd.DataFrame:
    """Return the printed markers of the first rounds."""
    line = drawn("fig2", DATASETS[CIFAR10], OURS).loc[:ROUNDS]
    rounds = line.index.to_series().clip(lower=1).to_numpy()
    return pd.DataFrame({"label": PRINTED, "round": rounds, "mean": line.to_numpy()})


def draw(sheet: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw a panel per scoring point."""
    canvas = sheet(9.5, 4.2)
    panels = figure_style.panels(canvas, len(POINTS), len(POINTS), sharey=True)
    for axes, point in zip(panels, POINTS.values(), strict=True):
        lines = data[data["point"] == point]
        plots.curves(axes, lines, figure_style.looks([PRINTED, *ROWS], PRINTED))
        if lines.empty:
            figure_style.not_run(axes)
        axes.set(title=point, xlabel="Round", ylabel="Accuracy (%)")
    figure_style.legend_below(canvas, panels, columns=len(RULES))
    return canvas
