"""Figures 3 and 4: accuracy against rounds, and against work, on two data sets."""

from __future__ import annotations

from math import isfinite, nan

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.claims import cell, every, led_by, sentence
from repfl.paper_tables.core.curves import accuracy_curves
from repfl.paper_tables.core.evidence import Evidence, pick, why_missing
from repfl.paper_tables.core.published import stated, told
from repfl.paper_tables.core.result import Claim, Figure, Sheet
from repfl.paper_tables.core.verdict import MARGIN
from repfl.paper_tables.pfeddst.settings import (
    DATASETS,
    METHODS,
    OURS,
    PAPER,
    RIVAL,
    SERVERLESS,
    protocol,
    scale_note,
)

WORK = (
    "Client-epochs: rounds × clients that train in a round × epochs of each. Methods with a server"
    " train a part of the clients (README, 3), PFedDST and DFedPGP one epoch more than the others"
    " (README, 5)."
)
INFERRED = (
    "The paper's text does not say which figure shows which data set; the order of its sentences"
    " does."
)


def fig3(evidence: Evidence) -> Figure:
    """CIFAR-10."""
    return _figure(evidence, "fig3", "cifar10", OURS)


def fig4(evidence: Evidence) -> Figure:
    """CIFAR-100."""
    return _figure(evidence, "fig4", "cifar100", RIVAL)


def _figure(evidence: Evidence, name: str, short: str, best: str) -> Figure:
    labels = [
        row
        for row in dict.fromkeys(evidence.cells["row"])
        if not pick(evidence, row=row, column=short).empty
    ]
    data = accuracy_curves(evidence, labels, [short], "post_agg/mean")
    data = data.assign(
        work=data["round"]
        * data["label"].map({label: per_round(evidence, label, short) for label in labels})
    )
    printed = nan
    what = "Lines: mean over seeds. Left against rounds, right against work."
    if evidence.scale == "paper":
        metric = {"metric": "personalized_test_accuracy", "dataset": DATASETS[short]}
        printed = stated(told(evidence.published, method=best, **metric))
        what += f" Dotted: the value printed for {best}."
    return Figure(
        PAPER,
        name,
        f"Figure {name[3:]}: accuracy against rounds on {DATASETS[short]}",
        captions.caption(evidence, what, floor=False),
        evidence.scale,
        (INFERRED, WORK, *scale_note(evidence.scale), *_gaps(evidence, labels, short)),
        claims(evidence, short),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_curves(sheet, data, labels, (best, printed)),
        data=data,
        alt=(
            f"Test accuracy on {DATASETS[short]} against communication rounds and against"
            " client-epochs, one line per method."
        ),
    )


def per_round(evidence: Evidence, label: str, short: str) -> float:
    """Client-epochs of a round."""
    first = pick(evidence, row=label, column=short).iloc[0]
    clients = int(first["recipe.clients"])
    cohort = (
        clients
        if first["method"] in SERVERLESS
        else max(1, round(float(first["recipe.participation"]) * clients))
    )
    head = first.get("hp.head_epochs", 0)
    epochs = float(first["recipe.training.epochs"]) + (float(head) if head == head else 0.0)
    return cohort * epochs


def _gaps(evidence: Evidence, labels: list[str], short: str) -> tuple[str, ...]:
    """One note per line that is absent or rests on fewer seeds."""
    reasons = {
        label: why_missing(pick(evidence, row=label, column=short), evidence.scale)
        for label in labels
    }
    return tuple(f"{label}: {reason}" for label, reason in reasons.items() if reason)


def draw_curves(
    sheet: Sheet, data: pd.DataFrame, labels: list[str], printed: tuple[str, float]
) -> Canvas:
    """Two panels with one legend."""
    canvas = sheet(10.5, 4.3)
    left, right = figures.panels(canvas, 2, 2, sharey=True)
    who, value = printed
    for panel, axis in ((left, "round"), (right, "work")):
        lines = data if axis == "round" else data.assign(round=data["work"])
        figures.curves(panel, lines, labels)
        if isfinite(value):
            panel.axhline(
                value, color="0.35", linestyle=":", linewidth=1.1, label=f"{who}, as printed"
            )
        if lines.empty:
            figures.not_run(panel)
    left.set(xlabel="Round", ylabel="Test accuracy (%)")
    right.set(xlabel="Client-epochs", xscale="log" if len(data) else "linear")
    if len(data):
        left.set_ylim(*figures.limits(np.append(data["mean"].to_numpy(dtype=float), value)))
    figures.legend_below(canvas, left, columns=4)
    return canvas


LEADS = {
    "cifar10": (
        OURS,
        "lead-on-cifar10",
        "PFedDST outperforms the nearest baseline by 1.0 points on CIFAR-10",
        "margin_over_nearest_baseline",
    ),
    "cifar100": (
        RIVAL,
        "dfedpgp-leads-on-cifar100",
        "DFedPGP leads on CIFAR-100, at least 0.7 points above the other baselines",
        "margin_over_other_baselines_lower_bound",
    ),
}
"""Per data set: who leads, and the sentence on it."""


def claims(evidence: Evidence, short: str) -> tuple[Claim, ...]:
    """Sentences of sections III-A and III-B on one data set."""
    number = {"cifar10": 2, "cifar100": 5}[short]
    held = protocol(
        evidence,
        evidence.cells[evidence.cells["row"].isin(METHODS)],
        f"classes-on-{short}",
        f"A client holds {number} classes of {DATASETS[short]}",
        {"classes_per_client": "partition.classes"},
        table="text III-A",
        dataset=DATASETS[short],
    )
    who, name, text, metric = LEADS[short]
    rows = told(evidence.published, metric=metric, dataset=DATASETS[short])
    others = [row for row in METHODS if row != who and (short == "cifar10" or row != OURS)]
    leads = [cell(who, short) - cell(other, short) for other in others]
    bar = stated(rows)
    condition = (
        led_by(leads, bar, slack=0.0, margin=MARGIN)
        if short == "cifar10"
        else every(lead >= bar for lead in leads)
    )
    frame = tables.lines_frame(evidence, METHODS, [short])
    judged = sentence(
        frame,
        name,
        text,
        condition,
        scale=evidence.scale,
        sources=rows["source"],
        about=leads,
        print_=False,
        full_scale_only=True,
    )
    return held, judged
