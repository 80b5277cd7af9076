"""The common look of all figures, and the shapes that several papers draw."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as Canvas

PALETTE: tuple[Any, ...] = (
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc",
    "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9",
)  # fmt: skip
"""Seaborn's colour-blind-safe colours, written out so that a table waits for no drawing; lines
differ in dash and marker as well, so no colour carries meaning alone.
"""
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 2)),
    (0, (1, 1.4)),
    (0, (5, 2, 1, 2)),
    (0, (8, 3)),
    (0, (3, 1, 1, 1, 1, 1)),
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
RC = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.dpi": 120,
    "savefig.dpi": 120,
    "font.family": ["DejaVu Sans"],
    "svg.hashsalt": "repfl",
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    """Seaborn's white grid with our sizes, for everything drawn inside."""
    with mpl.rc_context(dict(sns.axes_style("whitegrid")) | RC):
        yield


def sheet(width: float, height: float) -> Canvas:
    """An empty figure that belongs to no window and no global state."""
    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(canvas: Canvas, count: int, per_row: int, **options: Any) -> list[Axes]:
    """A grid of axes, the unused ones left out."""
    rows = -(-count // per_row)
    axes = canvas.subplots(rows, min(per_row, count), squeeze=False, **options).ravel()
    for spare in axes[count:]:
        spare.remove()
    return list(axes[:count])


def look(index: int) -> dict[str, Any]:
    """Colour and dash of the index-th line."""
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": DASHES[index % len(DASHES)]}


FEW = 12
"""Lines of so few points show where these are; one of a single point shows at all."""


def mark(index: int) -> dict[str, Any]:
    """The mark of the index-th line."""
    return {"marker": MARKERS[index % len(MARKERS)], "markersize": 3.5}


def limits(values: np.ndarray, margin: float = 0.06) -> tuple[float, float]:
    """Axis limits of percentages that leave out the empty range below the lowest one."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 100.0
    low, high = float(finite.min()), float(finite.max())
    gap = max(high - low, 2.0)
    return max(0.0, low - 2 * margin * gap), min(
        100.0, high + margin * gap
    ) if high <= 100 else high


def not_run(axes: Axes, text: str = "not run at this scale") -> None:
    """An empty panel says why, and has no axis of numbers that mean nothing."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="0.35")
    axes.set_xticks([])
    axes.set_yticks([])


def fullest(axes: Sequence[Axes]) -> Axes:
    """The panel with the most lines, whose legend does for all."""
    return max(axes, key=lambda panel: len(panel.get_legend_handles_labels()[1]))


def legend_below(canvas: Canvas, axes: Axes, columns: int = 4) -> None:
    """One legend for all panels, under them."""
    handles, labels = axes.get_legend_handles_labels()
    canvas.legend(
        handles, labels, loc="outside lower center", ncols=min(columns, max(1, len(labels)))
    )


def legend_of(canvas: Canvas, axes: Sequence[Axes], columns: int, missing: Sequence[str]) -> None:
    """One legend of all that some panel draws, each name once, and what is missing."""
    found: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    canvas.legend(
        found.values(),
        found.keys(),
        loc="outside lower center",
        ncols=max(1, min(columns, len(found))),
        title=f"Ours not run at this scale: {', '.join(missing)}" if missing else None,
        title_fontsize=8,
    )


def literal(name: str) -> str:
    """A name in which dollar signs are dollar signs, and begin no formula."""
    return name.replace("$", r"\$")


def curves(axes: Axes, data: pd.DataFrame, order: Sequence[str], *, band: bool = False) -> None:
    """Lines of mean against round, one per label; data: label, round, mean (and low, high for the
    band).
    """
    for index, label in enumerate(order):
        line = data[data["label"] == label].sort_values("round")
        if line.empty:
            continue
        marks = mark(index) if len(line) <= FEW else {}
        style = {"linewidth": 1.4, **look(index), **marks}
        axes.plot(line["round"], line["mean"], label=literal(label), **style)
        if band:
            axes.fill_between(
                line["round"],
                line["low"],
                line["high"],
                color=PALETTE[index % len(PALETTE)],
                alpha=0.18,
                linewidth=0,
            )


def dots(axes: Axes, values: pd.DataFrame, groups: Sequence[str], labels: Sequence[str]) -> None:
    """Groups of means with their deviation, what is printed as a diamond beside each where the two
    are comparable; `values` has the index (label, group) and ours, std, published.
    """
    width = 0.84 / max(1, len(labels))
    places = np.arange(len(groups), dtype=float)

    def column(name: str, label: str) -> np.ndarray:
        return np.array([float(values[name].get((label, g), np.nan)) for g in groups])

    for index, label in enumerate(labels):
        x = places + (index - (len(labels) - 1) / 2) * width
        colour = PALETTE[index % len(PALETTE)]
        axes.errorbar(
            x,
            column("ours", label),
            yerr=np.nan_to_num(column("std", label)),
            color=colour,
            fmt=MARKERS[index % len(MARKERS)],
            markersize=5,
            elinewidth=1.0,
            label=label,
        )
        printed = column("published", label)
        if np.isfinite(printed).any():
            axes.plot(
                x + width / 4,
                printed,
                "D",
                color="black",
                markerfacecolor="white",
                markersize=3,
                label="_printed" if index else "as printed",
            )
    axes.set_xticks(places, list(groups))
    axes.grid(axis="x", visible=False)


def ridge(axes: Axes, samples: Sequence[np.ndarray], labels: Sequence[str], step: float) -> None:
    """Overlapping densities of shares in 0..1, one line per sample, the first on top: histograms,
    smoothed over at least their `step`.
    """
    limits, width = (0.0, 1.0), max(0.03, 0.6 * step)
    grid = np.linspace(*limits, 241)
    for place, sample in enumerate(samples):
        base = len(samples) - 1 - place
        counts, edges = np.histogram(sample, bins=200, range=limits)
        centres = (edges[:-1] + edges[1:]) / 2
        density = np.exp(-0.5 * ((grid[:, None] - centres) / width) ** 2) @ counts
        height = 1.45 * density / max(float(density.max()), 1e-12)
        colour = PALETTE[place % len(PALETTE)]
        axes.fill_between(
            grid, base, base + height, color=colour, alpha=0.75, linewidth=0, zorder=place + 1
        )
        axes.plot(grid, base + height, color="white", linewidth=1, zorder=place + 1)
    axes.set_yticks(range(len(samples)), list(reversed(list(labels))))
    axes.set_xlim(*limits)
    axes.set_ylim(0, len(samples) + 0.6)
    axes.grid(axis="y", visible=False)


HEAT = "mako_r"
"""Perceptually uniform, and readable in grey."""


def heat(axes: Axes, values: np.ndarray, *, top: float, bottom: float = 0.0) -> None:
    """A heat map of values from `bottom`, mostly zero, to `top`."""
    axes.imshow(
        values,
        aspect="auto",
        interpolation="nearest",
        cmap=sns.color_palette(HEAT, as_cmap=True),
        vmin=bottom,
        vmax=top,
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)


def counts_scale(top: float) -> ScalarMappable:
    """The colours of `heat`, for a colour bar."""
    return ScalarMappable(Normalize(0, top), sns.color_palette(HEAT, as_cmap=True))
