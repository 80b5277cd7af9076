"""Figures 3 and 4: accuracy against rounds, and against work, on two data sets."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import StrMethodFormatter

from repfl.paper_tables.core import forms, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, pick
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, Figure, NewCanvas
from repfl.paper_tables.pfeddst.settings import (
    DATASETS,
    FOLDER,
    METHODS,
    OURS,
    PAPER,
    RIVAL,
    scale_note,
)

WORK = (
    "Client-epochs: rounds × clients that train in a round × epochs of each. Methods with a server"
    " train a part of the clients (README, 3), PFedDST and DFedPGP one epoch more than the others"
    " (README, 5)."
)
LONG = "cifar10-500"
SHORT = "At the smoke scale these runs have four rounds, whatever their names say."
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


def fig3_long(evidence: Evidence) -> Figure:
    """PFedDST with chosen peers, random peers and none, beside DFedPGP and FedPer."""
    labels = list(dict.fromkeys(evidence.cells["row"]))
    data = forms.accuracy_curves(evidence, labels, [LONG], "post_agg/mean")
    epochs = {label: per_round(evidence, label, LONG) for label in labels}
    data = data.assign(work=data["round"] * data["label"].map(epochs))
    return forms.figure(
        evidence,
        (PAPER, "fig3-long"),
        "PFedDST with peers and without over 500 rounds",
        "Left against rounds, right against work. The paper draws no such figure.",
        lambda new_canvas: draw_curves(new_canvas, data, labels, {}),
        data,
        notes=(
            WORK,
            *forms.at_scale(evidence, smoke=SHORT),
            *scale_note(evidence),
            *forms.missing(evidence, labels, [LONG]),
        ),
        findings=forms.leaders(evidence, data, {LONG: DATASETS["cifar10"]}),
        alt="Test accuracy over 500 rounds with and without peers, one line per method.",
        accuracy=True,
    )


def _figure(evidence: Evidence, name: str, short: str, best: str) -> Figure:
    cells = evidence.cells[evidence.cells["column"] == short]
    labels = list(dict.fromkeys(cells["row"]))
    runs = forms.run_curves(evidence, labels, [short], "post_agg/mean")
    data = forms.mean_curves(runs, labels, [short])
    epochs = {label: per_round(evidence, label, short) for label in labels}
    data = data.assign(work=data["round"] * data["label"].map(epochs))
    metric = {"metric": "personalized_test_accuracy", "dataset": DATASETS[short]}
    printed = stated(select(evidence.published, method=best, **metric))
    shown = {best: printed} if evidence.scale == "paper" else {}
    diamond = f" Diamond: the value that the paper reports for {best}." if shown else ""
    return forms.figure(
        evidence,
        (PAPER, name),
        f"Figure {name[3:]}: accuracy against rounds on {DATASETS[short]}",
        f"Lines: mean over seeds. Left against rounds, right against work.{diamond}",
        lambda new_canvas: draw_curves(new_canvas, data, labels, shown),
        data,
        notes=(INFERRED, WORK, *scale_note(evidence), *forms.missing(evidence, labels, [short])),
        claims=(*claims(evidence, name, short), stability(runs, short, evidence.scale)),
        findings=forms.leaders(evidence, data, {short: DATASETS[short]}),
        alt=(
            f"Test accuracy on {DATASETS[short]} against communication rounds and against"
            " client-epochs, one line per method."
        ),
        accuracy=True,
    )


def per_round(evidence: Evidence, label: str, short: str) -> float:
    """Client-epochs of a round."""
    first = pick(evidence, row=label, column=short).iloc[0]
    head = first.get("hp.head_epochs", 0)
    epochs = float(first["recipe.training.epochs"]) + (float(head) if head == head else 0.0)
    return float(first["participants"]) * epochs


def draw_curves(
    new_canvas: NewCanvas, data: pd.DataFrame, labels: list[str], printed: Mapping[str, float]
) -> Canvas:
    """Draw two panels with one legend."""
    canvas, styles = new_canvas(8.4, 4.3), figure_style.looks(labels, OURS)
    left, right = axes = figure_style.panels(canvas, 2, 2, sharey=True)
    if data.empty:
        for panel in axes:
            figure_style.not_run(panel)
        return canvas
    for panel, x in ((left, "round"), (right, "work")):
        plots.curves(panel, data, styles, x=x)
    plots.at_the_end(left, float(data["round"].max()), printed, styles)
    plots.focus(left, plots.with_ends(data, printed))
    left.set(xlabel="Round", ylabel="Accuracy (%)", title="By rounds")
    right.set(xlabel="Client-epochs (logarithmic)", xscale="log", title="By local work")
    right.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure_style.legend_below(canvas, axes)
    return canvas


def stability(runs: pd.DataFrame, short: str, scale: str) -> Claim:
    """Section III-B: “superior stability”."""
    text = (
        f"PFedDST is more stable than the baselines on {DATASETS[short]} (smallest change between"
        " scored rounds)"
    )
    rivals = [name for name in METHODS if name not in (OURS, "FedBABU")]  # scored now and then
    words = f"stable-on-{short}", text, "III-B", scale
    return shared_claims.smoothest(runs, {short: DATASETS[short]}, rivals, OURS, words)


def claims(evidence: Evidence, name: str, short: str) -> tuple[Claim, ...]:
    """Sentences of sections III-A and III-B on one data set."""
    number = {"cifar10": 2, "cifar100": 5}[short]
    held = shared_claims.protocol(
        evidence,
        evidence.cells[evidence.cells["row"].isin(METHODS)],
        (f"classes-on-{short}", f"A client holds {number} classes of {DATASETS[short]}", "III-A"),
        {"classes_per_client": "partition.classes"},
        select(evidence.published, table="text III-A", dataset=DATASETS[short]),
    )
    frame = tables.lines_frame(evidence, METHODS, [short])
    return held, *judge_all(evidence, FOLDER, name, frame)
