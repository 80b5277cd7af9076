"""Figures 2 and 3: accuracy against rounds, and against the number of training images."""

from __future__ import annotations

from math import isfinite, nan

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core import captions, figures, tables
from repfl.paper_tables.core.curves import accuracy_curves
from repfl.paper_tables.core.evidence import Evidence, pick, scores, why_missing
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
    Folded,
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
    evidence = Folded(evidence)
    data = round_curves(evidence)
    printed = {key: _printed(evidence, key) for key in DATASETS}
    what = (
        "Lines: mean over seeds. Dots on the right: the values of the paper's Table 1, in the"
        " colour of their line."
    )
    return Figure(
        PAPER,
        "fig2",
        "Figure 2: accuracy against rounds",
        captions.caption(evidence, what, floor=False),
        evidence.scale,
        (UNSTATED, *gaps(evidence, tuple(DATASETS)), *smoke_note(evidence.scale)),
        (smoothness(data),),
        tables.done_ids(evidence),
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
    """One panel per data set."""
    canvas = sheet(11.5, 6.4)
    axes = figures.panels(canvas, len(DATASETS), 2)
    for panel, (key, name) in zip(axes, DATASETS.items(), strict=True):
        lines = data[data["column"] == key]
        figures.curves(panel, lines, METHODS)
        last = max(2.0, float(lines["round"].max()) if len(lines) else 2.0)
        panel.set_xlim(1, 1 + (last - 1) * 1.06)
        if lines.empty:
            panel.text(
                0.5,
                0.5,
                "not run at this scale",
                transform=panel.transAxes,
                ha="center",
                color="0.35",
            )
        for place, method in enumerate(METHODS):
            height, colour = (
                printed[key].get(method, nan),
                figures.PALETTE[place % len(figures.PALETTE)],
            )
            panel.plot(
                [1 + (last - 1) * 1.04],
                [height],
                "o",
                color=colour,
                markersize=4,
                label="_published",
            )
        panel.set_title(name)
        panel.set_xlabel("Round")
        panel.set_ylabel("Test accuracy (%)")
    figures.legend_below(
        canvas, max(axes, key=lambda a: len(a.get_legend_handles_labels()[1])), columns=5
    )
    return canvas


def roughness(line: pd.DataFrame) -> float:
    """Mean change of accuracy between scored rounds in the second half of a run, up or down, in
    points.
    """
    values = line.sort_values("round")["mean"].to_numpy(dtype=float)
    late = values[len(values) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else nan


def smoothness(data: pd.DataFrame) -> Claim:
    """Section 5.2; the two methods that are scored only now and then are left out."""
    text = "FedSelect converges more smoothly than the other baselines"
    told, holds = [], []
    for key, name in DATASETS.items():
        lines = data[(data["column"] == key) & ~data["label"].isin(TUNED)]
        found = {str(label): roughness(line) for label, line in lines.groupby("label", sort=False)}
        own = found.pop(OURS, nan)
        if isfinite(own) and found:
            rank = 1 + sum(value < own for value in found.values())
            told.append(f"{name} {own:.2f} points a round, {rank}. smoothest of {len(found) + 1}")
            holds.append(rank == 1)
    return Claim(text, all(holds) if told else None, "; ".join(told) or "no run has ended")


# -- figure 3 --------------------------------------------------------------------------------------


def fig3(evidence: Evidence) -> Figure:
    """Ten methods, three or four numbers of training images per client."""
    evidence = Folded(evidence)
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
        size_claims(evidence, data),
        tables.done_ids(evidence),
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


def size_claims(evidence: Evidence, data: pd.DataFrame) -> tuple[Claim, ...]:
    """Section 5.2 on few samples: two numbers, and the order of methods."""
    fewest = (
        data[data["images"] == data["images"].min()].set_index("label")["mean"]
        if len(data)
        else pd.Series(dtype=float)
    )
    return (*(_fallen(evidence, fewest, name) for name in ("FedBABU", "FedPer")), _robust(fewest))


def _fallen(evidence: Evidence, fewest: pd.Series, method: str) -> Claim:
    rows = evidence.published
    rows = rows[(rows["table"] == "text 5.2") & (rows["method"] == method)]
    stated, ours = float(rows["value"].iloc[0]), float(fewest.get(method, nan))
    holds = abs(ours - stated) <= MARGIN if isfinite(ours) and evidence.scale == "paper" else None
    detail = (
        f"ours with the fewest images at the {evidence.scale} scale: {ours:.2f}; the paper's number"
        " of images is lost (README, 26)"
    )
    return Claim(
        f"With little data {method} degrades to {stated:g} %",
        holds,
        detail,
        None,
        tuple(rows["source"]),
    )


def _robust(fewest: pd.Series) -> Claim:
    text = "With the fewest images FedSelect stays above FedBABU and FedPer"
    if not {OURS, "FedBABU", "FedPer"} <= set(fewest.index):
        return Claim(text, None, "not all of them have run")
    best = str(fewest.idxmax())
    told = ", ".join(f"{name} {fewest[name]:.2f}" for name in (OURS, "FedBABU", "FedPer"))
    return Claim(
        text,
        bool(fewest[OURS] > max(fewest["FedBABU"], fewest["FedPer"])),
        f"{told}; best of all: {best} {fewest[best]:.2f}",
    )
