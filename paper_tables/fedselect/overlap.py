"""Figure 4: which clients choose the same parameters, from recorded masks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import MaxNLocator

from repfl.paper_tables.core import builders
from repfl.paper_tables.core.drawing import figure_style, plots
from repfl.paper_tables.core.evidence import Arrays, Evidence, pick, spans, why_missing
from repfl.paper_tables.core.result import Claim, NewCanvas, Result
from repfl.paper_tables.fedselect.settings import CIFAR10, LIMITS, PAPER, SAME_DATA

MEASURE = (
    "Overlap of two clients: parameters personal to both, as a share of those personal to either."
    " Two independent masks of share a would overlap by a / (2 - a). The paper does not define its"
    " measure (README, 27)."
)
ORDER = (
    "Clients are ordered by the labels of their training images, as in the paper; the labels stand"
    " at the axis."
)


STATISTICS = (".mean", ".var", ".running_mean", ".running_var")
"""How a layout names the running statistics of batch norm, which are no parameters."""


@dataclass(frozen=True)
class Overlap:
    """One run's masks, compared."""

    alpha: str
    table: np.ndarray  # [N, N], NaN on the diagonal
    labels: tuple[tuple[int, ...], ...]
    """The classes of every client, in the order of the table."""
    share: float
    """Personal share of the parameters, mean over clients."""

    @property
    def pairs(self) -> pd.DataFrame:
        """Return every pair of clients: their overlap, and whether they have a class in common."""
        rows = [
            {
                "alpha": self.alpha,
                "first": i,
                "second": j,
                "common": bool(set(a) & set(b)),
                "overlap": float(self.table[i, j]),
            }
            for (i, a), (j, b) in combinations(enumerate(self.labels), 2)
        ]
        return pd.DataFrame(rows)


def overlaps(arrays: Arrays) -> Arrays:
    """Reduce a run's mask tallies to its overlaps; empty if it recorded none."""
    if not {"mask", "class_counts", "layout/names"} <= set(arrays):
        return {}
    # masks only grow, so what was ever personal is personal at the end
    masks = [
        arrays["mask"][:, span] > 0
        for name, span in spans(arrays).items()
        if not name.endswith(STATISTICS)
    ]
    return compare_masks(np.concatenate(masks, axis=1), arrays["class_counts"])


def compare_masks(masks: np.ndarray, counts: np.ndarray) -> Arrays:
    """Compare final masks [N, D], given training samples per class [N, C]: overlaps, the classes of
    each client, and the personal share.
    """
    owned = [tuple(np.flatnonzero(row).tolist()) for row in counts]
    order = sorted(range(len(masks)), key=lambda client: owned[client])
    packed, sizes = np.packbits(masks[order], axis=1), masks[order].sum(axis=1)
    table = np.full((len(order), len(order)), np.nan)
    for i, j in combinations(range(len(order)), 2):
        both = int(np.bitwise_count(packed[i] & packed[j]).sum())
        either = int(sizes[i] + sizes[j]) - both
        table[i, j] = table[j, i] = both / either if either else np.nan
    return {"table": table, "classes": counts[order] > 0, "share": np.asarray(masks.mean())}


def read(evidence: Evidence) -> list[Overlap] | str:
    """Return the overlaps of every α that has run, or the reason why there are none."""
    result, reasons = [], []
    for row in LIMITS:
        planned = pick(evidence, row=row, column=CIFAR10)
        done = planned[planned["status"] == "done"]
        if done.empty:
            reasons.append(f"{row}: {why_missing(planned, evidence.scale)}")
            continue
        cell = str(done.iloc[0]["id"])
        arrays = evidence.arrays(cell, overlaps)
        if not arrays:
            reasons.append(f"{row}: cell {cell[:12]} holds no mask tallies")
            continue
        labels = tuple(tuple(np.flatnonzero(client).tolist()) for client in arrays["classes"])
        result.append(Overlap(row, arrays["table"], labels, float(arrays["share"])))
    return result or "; ".join(reasons)


def fig4(evidence: Evidence) -> Result:
    """Return heat maps of pairwise overlap, one per α."""
    key, title = (PAPER, "fig4"), "Figure 4: how much the clients' masks overlap"
    what = "Overlap of the clients' final masks on CIFAR-10 for four limits α."
    result = read(evidence)
    if isinstance(result, str):
        return builders.absent(evidence, key, title, what, result, claims([], evidence.scale))
    return builders.figure(
        evidence,
        key,
        title,
        what,
        lambda sheet: draw(sheet, result),
        pd.concat([o.pairs for o in result], ignore_index=True),
        notes=(
            MEASURE,
            ORDER,
            *builders.missing(evidence, LIMITS, [CIFAR10]),
            *builders.at_scale(evidence, smoke=SAME_DATA),
        ),
        claims=claims(result, evidence.scale),
        alt=(
            "Heat maps of the pairwise overlap of ten clients' masks, ordered by labels, one per α."
        ),
    )


def draw(sheet: NewCanvas, compared: list[Overlap]) -> Canvas:
    """Draw one square per α, each with its own colour scale, which compares pairs at one α."""
    canvas = sheet(11.5, 3.9)
    for panel, overlap in zip(
        figure_style.panels(canvas, len(compared), len(compared)), compared, strict=True
    ):
        low, high = np.nanmin(overlap.table), np.nanmax(overlap.table)
        plots.heat(panel, overlap.table, top=float(high), bottom=float(low))
        names = [" ".join(map(str, labels)) for labels in overlap.labels]
        panel.set_xticks(range(len(names)), names, rotation=90, fontsize=7)
        panel.set_yticks(range(len(names)), names, fontsize=7)
        panel.set_box_aspect(1)
        panel.set_title(f"{overlap.alpha} (personal {100 * overlap.share:.1f} %)")
        canvas.colorbar(
            panel.images[0],
            ax=panel,
            location="bottom",
            shrink=0.9,
            label="Overlap",
            ticks=MaxNLocator(3),
        )
    return canvas


def claims(compared: list[Overlap], scale: str) -> tuple[Claim, ...]:
    """Return claims on the two sentences of section 5.2 on masks, from one seed."""
    inside = [_contrast(overlap) for overlap in compared]
    names = [overlap.alpha for overlap in compared]
    means = [float(np.nanmean(overlap.table)) for overlap in compared]
    contrasts = [common - none for common, none in inside]
    complete = bool(inside) and bool(np.isfinite(inside).all())
    every = len(compared) == len(LIMITS)

    def by_alpha(values: list[str]) -> str:
        return ", ".join(f"{a}: {v}" for a, v in zip(names, values, strict=True)) or "no run"

    return (
        Claim(
            "common-label-more-overlap",
            "Clients that share a label overlap more than clients that share none",
            all(contrast > 0 for contrast in contrasts) if complete else None,
            "mean overlap with a common label against none (one seed): "
            + by_alpha([f"{common:.3f} against {none:.3f}" for common, none in inside]),
            scale,
        ),
        Claim(
            "overlap-rises-with-limit",
            "A larger α gives more overlap",
            means == sorted(means) if every else None,
            "mean over pairs (one seed): " + by_alpha([f"{value:.3f}" for value in means]),
            scale,
        ),
        Claim(
            "less-distinct-with-limit",
            "A larger α gives less distinct masks: the lead of common labels shrinks from the"
            " smallest α to the largest",
            contrasts[-1] < contrasts[0] if every and complete else None,
            "lead (one seed): " + by_alpha([f"{value:+.3f}" for value in contrasts]),
            scale,
        ),
    )


def _contrast(overlap: Overlap) -> tuple[float, float]:
    """Return the mean overlap of pairs with and without a class in common."""
    pairs = overlap.pairs
    means = pairs.groupby("common")["overlap"].mean()
    return float(means.get(True, np.nan)), float(means.get(False, np.nan))
