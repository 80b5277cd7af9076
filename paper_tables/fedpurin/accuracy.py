"""Tables 1 and 2, figure 2, which draws Table 1, and the curves of figures 3 and 4."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import Proposition, judge_all, judge_propositions
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, folded
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.result import Figure, NewCanvas, Table
from repfl.paper_tables.fedpurin.settings import (
    ALPHAS,
    BN_ROWS,
    CIFAR10,
    COLUMNS,
    DATASETS,
    FOLDER,
    KEYS,
    METHODS,
    OURS,
    PAPER,
    PLACES,
    PRINTING,
    SAME_DATA,
    TABLE1_ROWS,
    TABLE2_ROWS,
    TAU_ROWS,
)

SCORED = (
    "Scored model: what a client holds after local training. For FedPURIN that is the sparsified"
    " model, as in the code (the text says only “before global aggregation”); the dense and the"
    " aggregated model of the same runs are the added rows."
)
LATTICE = (
    "FedPer on CIFAR-100 at α = 0.1 prints 50.34, which 20 clients of 100 test images cannot"
    " produce (steps of 1/60 %); the code's config file for it has 40 clients. The added row runs"
    " 40 at the paper scale."
)
ROWS_LOST = (
    "The check marks of the rows are lost in the text. Row 2 repeats Table 1's FedPURIN row, and"
    " rows 1 and 3 share the drop that the prose blames on the approximated gradient; only the"
    " order of rows 1 and 3 rests on counting in binary."
)
GRADIENT = "Which gradient these runs use is not stated; ours use the exact one, as the tables do."
BN_ARM = (
    "“w/ BN” may mean that BN weights are masked like all others (primary), or sent in full; the"
    " code has both, and both are drawn."
)
PROPOSITIONS = (
    Proposition(
        "substitute-slightly-below",
        "the square of the batch's mean gradient slightly underestimates F (equation 5)",
        "3.2",
        "substitute over F",
    ),
    Proposition(
        "substitute-ranks",
        "the square of the batch's mean gradient ranks parameters as F does (equation 5)",
        "3.2",
        "rank correlation with F",
    ),
)
"""Section 3.2, as `studies/propositions.py` tries it."""
NO_EXTRA_WORK = (
    "no-extra-computation",
    "The gradient of the last batch needs no computation of its own (at most 1 % more multiply-adds"
    " of a round than FedAvg)",
    "4.3",
)


def table1(evidence: Evidence) -> Table:
    """Seven methods on nine settings."""
    evidence = folded(evidence, "-n40", "-20", "-60")
    return forms.table(
        evidence,
        (PAPER, "table1"),
        "Table 1: test accuracy of seven methods on nine settings",
        "Personalised accuracy under client-wise Dirichlet heterogeneity.",
        number="1",
        rows=TABLE1_ROWS,
        columns=COLUMNS,
        places=PLACES,
        printing=PRINTING,
        compared=True,
        notes=(SCORED, LATTICE, *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda frame: (
            *judge_all(evidence, FOLDER, "table1", frame),
            shared_claims.same_work(
                evidence,
                NO_EXTRA_WORK,
                [(OURS, "FedAvg")],
                {column.key: column.name for column in COLUMNS},
                1.01,
            ),
        ),
    )


def table2(evidence: Evidence) -> Table:
    """FedPURIN with the two gradients, with and without the Hessian term."""
    return forms.table(
        evidence,
        (PAPER, "table2"),
        "Table 2: accuracy under different gradient and Hessian terms",
        "FedPURIN's perturbation score with the last batch's exact gradient g or the round's change"
        " Δθ in its place.",
        number="2",
        rows=TABLE2_ROWS,
        columns=COLUMNS,
        places=PLACES,
        printing=PRINTING,
        compared=True,
        notes=(ROWS_LOST, SCORED.split(";")[0] + ".", *forms.at_scale(evidence, smoke=SAME_DATA)),
        claims=lambda frame: (
            *judge_all(evidence, FOLDER, "table2", frame),
            *judge_propositions(
                pd.read_csv(FOLDER / "propositions.csv"), evidence.scale, PROPOSITIONS
            ),
        ),
        corner="g, H",
    )


def fig2(evidence: Evidence) -> Figure:
    """Table 1 as a picture, one panel per data set."""
    rows = TABLE1_ROWS[: len(METHODS)]
    frame = tables.accuracy_frame(evidence, "1", rows, COLUMNS, PLACES, PRINTING)
    fields = ["row", "column", "ours", "std", "printed", "printed_std"]
    shown = frame[fields].reset_index(drop=True)
    if evidence.scale == "smoke":  # digits stand beside no reported number
        shown = shown.drop(columns=["printed", "printed_std"])
    return forms.figure(
        evidence,
        (PAPER, "fig2"),
        "Figure 2: the accuracies of Table 1",
        "Hollow: reported, with the reported deviation. Filled: ours, with the deviation over"
        " seeds if there are several. The paper draws bars; marks need no axis from zero.",
        lambda new_canvas: draw_dots(new_canvas, shown),
        frame[fields[:-1]].reset_index(drop=True),
        notes=(*forms.at_scale(evidence, smoke=SAME_DATA), *tables.remarks(frame, COLUMNS)),
        findings=_re_run(frame) if evidence.scale == "paper" else (),
        alt="Test accuracy with its deviation per method and α, one panel per data set.",
        accuracy=True,
    )


MAX_NAMED_POINTS = 4


def _re_run(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return how many of the reported accuracies have a run of ours, and how far a few are off."""
    both = frame.dropna(subset=["ours", "printed"])
    names = {column.key: column.name for column in COLUMNS}
    gaps = [
        f"{row['row']} on {names[row['column']]}: {signed(row['ours'] - row['printed'], 1)} points"
        for row in both.to_dict("records")
    ]
    text = f"{len(both)} of {frame['printed'].notna().sum()} reported accuracies have been re-run"
    return (f"{text}. {'; '.join(gaps)}." if 0 < len(gaps) <= MAX_NAMED_POINTS else f"{text}.",)


def draw_dots(new_canvas: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw one panel per data set."""
    canvas, values = new_canvas(11, 3.8), data.set_index(["row", "column"])
    axes = figure_style.panels(canvas, len(ALPHAS), 3)
    for panel, (short, alphas) in zip(axes, ALPHAS.items(), strict=True):
        plots.dots(
            panel, values, [KEYS[short, a] for a in alphas], figure_style.looks(METHODS, OURS)
        )
        panel.set_xticks(range(len(alphas)), [f"α = {a}" for a in alphas])
        panel.set_title(DATASETS[short])
    axes[0].set_ylabel("Accuracy (%)")
    if "printed" in data:
        plots.hollow(axes[0], "hollow: reported")
    figure_style.legend_below(canvas, axes)
    return canvas


def fig3(evidence: Evidence) -> Figure:
    """BN weights kept local, masked and shared, or shared in full."""
    title, notes = "Figure 3: BN kept local or collaborated", (BN_ARM, GRADIENT)
    return _curves(evidence, "fig3", title, BN_ROWS, BN_ROWS[0], notes)


def fig4(evidence: Evidence) -> Figure:
    """Five shares of critical parameters."""
    title, notes = "Figure 4: the share τ of critical parameters", (GRADIENT,)
    return _curves(evidence, "fig4", title, TAU_ROWS, TAU_ROWS[3], notes)


def _curves(
    evidence: Evidence,
    name: str,
    title: str,
    rows: Sequence[str],
    table1: str,
    notes: tuple[str, ...],
) -> Figure:
    """Variants on CIFAR-10 by round; one of them, `table1`, is FedPURIN of Table 1."""
    printed = {
        key: tables.published_row(evidence.published, "1", PLACES[key], OURS) for key in CIFAR10
    }
    return forms.by_round(
        evidence,
        (PAPER, name),
        title,
        "Lines: mean over seeds; bands: lowest to highest.",
        rows=rows,
        columns=[column for column in COLUMNS if column.key in CIFAR10],
        curve="pre_agg/mean",
        reported={
            (key, table1): float(row["value"]) for key, row in printed.items() if row is not None
        },
        notes=notes,
        claims=judge_all(evidence, FOLDER, name, tables.lines_frame(evidence, rows, CIFAR10)),
        alt=f"Test accuracy against rounds on CIFAR-10 for {', '.join(rows)}; one panel per α.",
    )
