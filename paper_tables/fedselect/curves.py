"""Figures 2 and 3: accuracy against rounds, and against the number of training images."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import forms, tables
from repfl.paper_tables.core.claims import shared_claims
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Evidence, pick, scores
from repfl.paper_tables.core.result import Claim, Figure, NewCanvas
from repfl.paper_tables.core.statistics.intervals import spread
from repfl.paper_tables.fedselect.settings import (
    CIFAR10,
    COLUMNS,
    DATASETS,
    FOLDER,
    METHODS,
    OURS,
    PAPER,
    PLACES,
    SAME_DATA,
    TUNED,
    folded,
)

AFTER = ("FedAvg", *TUNED)
"""Methods whose curve is that of the global or fine-tuned model."""
DRAWN = (
    ([name for name in METHODS if name not in AFTER], tuple(DATASETS), "pre_agg/mean"),
    (AFTER, tuple(DATASETS), "post_agg/mean"),
)
"""Rows, columns and the stored curve that is drawn."""
SIZES = ("cifar10-n20", "cifar10-n40", CIFAR10, "cifar10-n200")
SIZES_READ = (
    "The numbers of images are those of the paper's axis: 20, 40, 100 and 200 (README, 26). Test"
    " images and rounds are those of Table 1."
)


# -- figure 2 --------------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Figure:
    """Return figure 2: one panel per data set, one line per method, with Table 1's values."""
    evidence = folded(evidence)
    data = round_curves(evidence)
    printed = {
        (key, name): tables.published_row(evidence.published, "1", place, name)
        for key, place in PLACES.items()
        for name in METHODS
    }
    return forms.by_round(
        evidence,
        (PAPER, "fig2"),
        "Figure 2: accuracy against rounds",
        "Lines: mean over seeds. FedAvg + FT and FedBABU are scored after fine-tuning, rarely.",
        rows=METHODS,
        columns=COLUMNS,
        data=data,
        own=OURS,
        reported={key: float(row["value"]) for key, row in printed.items() if row is not None},
        notes=forms.at_scale(evidence, smoke=SAME_DATA),
        claims=(smoothness(evidence),),
        alt="Test accuracy against communication rounds for ten methods, one panel per data set.",
    )


def round_curves(evidence: Evidence) -> pd.DataFrame:
    """Return accuracy by round, after local training, or of the global or fine-tuned model."""
    parts = [forms.accuracy_curves(evidence, *lines) for lines in DRAWN]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def smoothness(evidence: Evidence) -> Claim:
    """Return the claim of section 5.2. Methods that are scored rarely are left out."""
    text = "FedSelect converges more smoothly than the other baselines"
    runs = pd.concat([forms.run_curves(evidence, *lines) for lines in DRAWN], ignore_index=True)
    rivals = [name for name in METHODS if name not in (OURS, *TUNED)]
    words = "smoother", text, "5.2", evidence.scale
    return shared_claims.smoothest(runs, DATASETS, rivals, OURS, words)


# -- figure 3 --------------------------------------------------------------------------------------


def fig3(evidence: Evidence) -> Figure:
    """Return figure 3: ten methods, three or four numbers of training images per client."""
    evidence = folded(evidence)
    data = size_curves(evidence)
    return forms.figure(
        evidence,
        (PAPER, "fig3"),
        "Figure 3: accuracy against the number of training images",
        "CIFAR-10, training images per client from few to many; mean over seeds.",
        lambda sheet: draw_sizes(sheet, data),
        data,
        notes=(
            SIZES_READ,
            *forms.missing(evidence, METHODS, SIZES),
            *forms.at_scale(evidence, smoke=SAME_DATA),
        ),
        claims=size_claims(evidence),
        alt="Test accuracy on CIFAR-10 against training images per client, one line per method.",
        accuracy=True,
    )


def size_curves(evidence: Evidence) -> pd.DataFrame:
    """Return reported accuracy by method and number of training images."""
    lines = []
    for label in METHODS:
        for key in SIZES:
            done = pick(evidence, row=label, column=key, done=True)
            if len(done):
                images = int(done["partition.train"].iloc[0]) * int(
                    done["partition.classes"].iloc[0]
                )
                accuracy = spread(scores(done))
                lines.append(
                    {
                        "label": label,
                        "images": images,
                        "mean": accuracy.mean,
                        "std": accuracy.std,
                        "seeds": accuracy.count,
                    }
                )
    return pd.DataFrame(lines, columns=["label", "images", "mean", "std", "seeds"])


def draw_sizes(sheet: NewCanvas, data: pd.DataFrame) -> Canvas:
    """Draw one line per method on a logarithmic axis."""
    canvas = sheet(7.5, 4.6)
    axes = canvas.subplots()
    plots.curves(axes, data, figure_style.looks(METHODS, OURS), x="images")
    plots.focus(axes, data)
    sizes = sorted(data["images"].unique())
    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set(xlabel="Training images per client", ylabel="Accuracy (%)")
    figure_style.legend_below(canvas, [axes], columns=5)
    return canvas


FALLEN = ("FedBABU", "FedPer")


def size_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Section 5.2 on few samples: two numbers, and the order of methods."""
    fewest = tables.lines_frame(evidence, (OURS, *FALLEN), SIZES[:1])
    return judge_all(evidence, FOLDER, "fig3", fewest)
