"""Figures 2 and 3: accuracy against rounds, and against the number of training images."""

from __future__ import annotations

from math import isfinite, nan

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.claims import best, cell, near, sentence
from repfl.paper_tables.core.curves import accuracy_curves
from repfl.paper_tables.core.evidence import Evidence, pick, scores, why_missing
from repfl.paper_tables.core.published import stated, told
from repfl.paper_tables.core.result import Claim, Figure, Sheet
from repfl.paper_tables.core.statistics import spread
from repfl.paper_tables.core.verdict import MARGIN
from repfl.paper_tables.fedselect.settings import (
    CIFAR10,
    DATASETS,
    METHODS,
    OURS,
    PAPER,
    PLACES,
    TUNED,
    folded,
    smoke_note,
)

AFTER = ("FedAvg", *TUNED)
"""Methods whose curve is that of the global or fine-tuned model."""
SIZES = ("cifar10-n20", "cifar10-n50", CIFAR10, "cifar10-n500")
UNSTATED = "The data sets of Figure 2 are not named in the text; all four are drawn."
SIZES_LOST = (
    "The numbers of images are lost in the text. The fewest must be below the 100 of Table 1, where"
    " FedBABU still has 75.45 (README, 26). Test images and rounds are those of Table 1."
)


def gaps(evidence: Evidence, columns: tuple[str, ...]) -> tuple[str, ...]:
    """One note per line that is absent or rests on fewer seeds."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in columns:
        for row in METHODS:
            if reason := why_missing(pick(evidence, row=row, column=key), evidence.scale):
                found.setdefault((key, reason), []).append(row)
    return tuple(
        f"{key}: {'all methods' if len(rows) == len(METHODS) else ', '.join(rows)}: {reason}"
        for (key, reason), rows in found.items()
    )


# -- figure 2 --------------------------------------------------------------------------------------


def fig2(evidence: Evidence) -> Figure:
    """One panel per data set, one line per method, the last round's printed value beside it."""
    evidence = folded(evidence)
    data = round_curves(evidence)
    full = evidence.scale == "paper"
    printed = {key: _printed(evidence, key) for key in DATASETS if full}
    what = "Lines: mean over seeds. FedAvg + FT and FedBABU are scored after fine-tuning, rarely."
    if full:
        what += " Dots on the right: the paper's Table 1, in the colour of their line."
    return Figure(
        PAPER,
        "fig2",
        "Figure 2: accuracy against rounds",
        captions.caption(evidence, what, floor=False),
        evidence.scale,
        (UNSTATED, *gaps(evidence, tuple(DATASETS)), *smoke_note(evidence.scale)),
        (smoothness(data, evidence.scale),),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_rounds(sheet, data, printed),
        data=data,
        alt="Test accuracy against communication rounds for ten methods, one panel per data set.",
    )


def round_curves(evidence: Evidence) -> pd.DataFrame:
    """Mean accuracy per round, after local training, or of the global or fine-tuned model."""
    before = [name for name in METHODS if name not in AFTER]
    parts = [
        accuracy_curves(evidence, labels, tuple(DATASETS), f"{point}/mean")
        for labels, point in ((before, "pre_agg"), (AFTER, "post_agg"))
    ]
    return pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)


def _printed(evidence: Evidence, key: str) -> dict[str, float]:
    found = {
        name: tables.published_row(evidence.published, "1", PLACES[key], name) for name in METHODS
    }
    return {name: float(row["value"]) for name, row in found.items() if row is not None}


def draw_rounds(sheet: Sheet, data: pd.DataFrame, printed: dict[str, dict[str, float]]) -> Canvas:
    """One panel per data set that has been run."""
    shown = [key for key in DATASETS if (data["column"] == key).any()] or list(DATASETS)[:1]
    canvas = sheet(6.2 * min(2, len(shown)), 3.4 * -(-len(shown) // 2) + 0.9)
    axes = figures.panels(canvas, len(shown), 2)
    for panel, key in zip(axes, shown, strict=True):
        lines = data[data["column"] == key]
        figures.curves(panel, lines, METHODS)
        if lines.empty:
            figures.not_run(panel)
        else:
            last = max(2.0, float(lines["round"].max()))
            panel.set_xlim(1, 1 + (last - 1) * 1.06)
            for place, method in enumerate(METHODS):
                panel.plot(
                    [1 + (last - 1) * 1.04],
                    [printed.get(key, {}).get(method, nan)],
                    "o",
                    color=figures.PALETTE[place % len(figures.PALETTE)],
                    markersize=4,
                    label="_published",
                )
        panel.set_title(DATASETS[key])
        panel.set_xlabel("Round")
        panel.set_ylabel("Test accuracy (%)")
    figures.legend_below(canvas, figures.fullest(axes), columns=5)
    return canvas


def roughness(line: pd.DataFrame) -> float:
    """Mean change of accuracy between scored rounds in the second half of a run, up or down, in
    points.
    """
    values = line.sort_values("round")["mean"].to_numpy(dtype=float)
    late = values[len(values) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothness(data: pd.DataFrame, scale: str) -> Claim:
    """Section 5.2; the two methods that are scored only now and then are left out."""
    parts, holds = [], []
    for key, name in DATASETS.items():
        lines = data[(data["column"] == key) & ~data["label"].isin(TUNED)]
        found = {str(label): roughness(line) for label, line in lines.groupby("label", sort=False)}
        own = found.pop(OURS, nan)
        if isfinite(own) and found:
            rank = 1 + sum(value < own for value in found.values())
            parts.append(
                f"{name} {own:.2f} points a round, place {rank} of {len(found) + 1} from the"
                f" smoothest ({seeds(lines)})"
            )
            holds.append(rank == 1)
    return Claim(
        "smoother",
        "FedSelect converges more smoothly than the other baselines",
        all(holds) if parts else None,
        "; ".join(parts) or "no run has ended",
        scale,
    )


def seeds(lines: pd.DataFrame) -> str:
    """How many runs are behind each line."""
    most = int(lines["seeds"].max())
    return "1 seed" if most == 1 else f"{most} seeds"


# -- figure 3 --------------------------------------------------------------------------------------


def fig3(evidence: Evidence) -> Figure:
    """Ten methods, three or four numbers of training images per client."""
    evidence = folded(evidence)
    data = size_curves(evidence)
    return Figure(
        PAPER,
        "fig3",
        "Figure 3: accuracy against the number of training images",
        captions.caption(
            evidence,
            "CIFAR-10, training images per client from few to many; mean over seeds.",
            floor=False,
        ),
        evidence.scale,
        (SIZES_LOST, *gaps(evidence, SIZES), *smoke_note(evidence.scale)),
        size_claims(evidence),
        tables.done_ids(evidence),
        stamp=captions.stamp(evidence),
        draw=lambda sheet: draw_sizes(sheet, data),
        data=data,
        alt="Test accuracy on CIFAR-10 against training images per client, one line per method.",
    )


def size_curves(evidence: Evidence) -> pd.DataFrame:
    """Reported accuracy by method and number of training images."""
    lines = []
    for label in METHODS:
        for key in SIZES:
            done = pick(evidence, row=label, column=key, done=True)
            if len(done):
                images = int(done["partition.train"].iloc[0]) * int(
                    done["partition.classes"].iloc[0]
                )
                found = spread(scores(done))
                lines.append(
                    {
                        "label": label,
                        "images": images,
                        "mean": found.mean,
                        "std": found.std,
                        "seeds": found.count,
                    }
                )
    return pd.DataFrame(lines, columns=["label", "images", "mean", "std", "seeds"])


def draw_sizes(sheet: Sheet, data: pd.DataFrame) -> Canvas:
    """One line per method on a logarithmic axis."""
    canvas = sheet(7.5, 4.6)
    axes = canvas.subplots()
    for place, label in enumerate(METHODS):
        line = data[data["label"] == label].sort_values("images")
        marker = figures.MARKERS[place % len(figures.MARKERS)]
        width = 2.2 if label == OURS else 1.2
        axes.plot(
            line["images"],
            line["mean"],
            label=label,
            marker=marker,
            markersize=5,
            linewidth=width,
            **figures.look(place),
        )
    axes.set_xscale("log")
    sizes = sorted(data["images"].unique())
    axes.set_xticks(sizes, [str(size) for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set_xlabel("Training images per client")
    axes.set_ylabel("Test accuracy (%)")
    figures.legend_below(canvas, axes, columns=5)
    return canvas


def size_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Section 5.2 on few samples: two numbers, and the order of methods."""
    fallen = ("FedBABU", "FedPer")
    fewest = tables.lines_frame(evidence, (OURS, *fallen), SIZES[:1])
    return (
        *(_fallen(evidence, fewest, name) for name in fallen),
        sentence(
            fewest,
            "few-images-above",
            "With the fewest images FedSelect stays above FedBABU and FedPer",
            best(OURS, fallen, SIZES[:1]),
            scale=evidence.scale,
            print_=False,
        ),
    )


def _fallen(evidence: Evidence, fewest: pd.DataFrame, method: str) -> Claim:
    rows = told(evidence.published, table="text 5.2", method=method)
    form = cell(method, SIZES[0])
    return sentence(
        fewest,
        f"few-images-{method.lower()}",
        f"With little data {method} degrades to {stated(rows):g} %",
        near(form, stated(rows), slack=0.0, margin=MARGIN),
        scale=evidence.scale,
        sources=rows["source"],
        about=form,
        print_=False,
        remark="the paper's number of images is lost (README, 26)",
        full_scale_only=True,
    )
