"""The plots that several papers draw: curves by round, marks, densities and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure as Canvas

from repfl.paper_tables.core.drawing import figure_style

FEW = 12
"""Lines of so few points have marks; one of a single point would not show without."""


# -- lines -----------------------------------------------------------------------------------------

LOG = "authors' log"
"""The kind of a line that is not ours."""


def curves(
    axes: Axes,
    data: pd.DataFrame,
    styles: Mapping[str, Mapping[str, Any]],
    *,
    x: str = "round",
    bands: Sequence[str] = (),
) -> None:
    """Draw lines of `mean` against `x`, one per label, some with bands from `low` to `high`, and
    hollow marks for lines whose `kind` is that of the authors' logs.
    """
    logged = data["kind"] == LOG if "kind" in data else pd.Series(False, index=data.index)
    for label, style in styles.items():
        line = data[(data["label"] == label) & ~logged].sort_values(x)
        if len(line):
            plain = {**style, "marker": style["marker"] if len(line) <= FEW else ""}
            axes.plot(line[x], line["mean"], label=figure_style.literal(label), **plain)
        if label in bands and len(line):
            colour = style["color"]
            axes.fill_between(line[x], line["low"], line["high"], color=colour, alpha=0.18, lw=0)
        log = data[(data["label"] == label) & logged].sort_values(x)
        if len(log):
            hollow = {**style, "markerfacecolor": "white", "linewidth": 0.6, "alpha": 0.9}
            own = "_log" if len(line) else figure_style.literal(label)
            axes.plot(log[x], log["mean"], label=own, **hollow)


MARGIN = 0.06
"""Share of the range of lines that is left free above them; twice as much below."""


def limits(values: np.ndarray) -> tuple[float, float]:
    """Return axis limits of percentages that leave out the empty range below the lowest one."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 100.0
    low, high = float(finite.min()), float(finite.max())
    gap = max(high - low, 2.0)
    top = high + MARGIN * gap
    return max(0.0, low - 2 * MARGIN * gap), min(100.0, top) if high <= 100 else high


MANY = 6
"""Of more lines only the paper's own method has a band."""
SQUEEZED = 5.0
"""Points below all other lines from which on one line does not set the limits of a panel."""


def focus(axes: Axes, data: pd.DataFrame) -> None:
    """Set the limits of a panel of percentages to where its lines are once they have risen. Lines
    that end far below all others would squeeze these, and are named at the foot of the panel.
    """
    turn = data["round"] if "round" in data else pd.Series(0, index=data.index)
    risen = data[turn >= turn.max() / 5]
    order = data.loc[turn.sort_values(kind="stable").index].groupby("label")["mean"].last()
    order, far = order.dropna().sort_values(), list[str]()
    while len(order) > 3 and (gap := order.iloc[1] - order.iloc[0]) > SQUEEZED:
        if gap < order.iloc[-1] - order.iloc[1]:
            break
        far.append(f"{order.index[0]} ends at {order.iloc[0]:.0f} %")
        order = order.iloc[1:]
    shown = risen.loc[risen["label"].isin(order.index), "mean"].to_numpy(dtype=float)
    axes.set_ylim(*limits(shown))
    axes.text(
        *(0.98, 0.02, "; ".join(far)),
        transform=axes.transAxes,
        ha="right",
        fontsize=7,
        color="0.35",
    )


PER_ROW = 4


def curve_panels(
    sheet: Any,
    data: pd.DataFrame,
    titles: Mapping[str, str],
    labels: Sequence[str],
    own: str = "",
    reported: Mapping[tuple[str, str], float] | None = None,
    *,
    by: str = "column",
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Canvas:
    """Draw a panel per column that has lines, with the authors' logs and the `reported` values by
    column and label in the same axes, at the right end.
    """
    printed, styles = reported or {}, styles or figure_style.looks(labels, own)
    with_runs = {key for key in titles if (data[by] == key).any()}
    shown = [key for key in titles if key in with_runs] or list(titles)[:1]
    wide = min(PER_ROW, len(shown))
    canvas = sheet(max(5.5, 3.4 * wide), 2.7 * -(-len(shown) // wide) + 0.8)
    axes = figure_style.panels(canvas, len(shown), wide)
    for panel, key in zip(axes, shown, strict=True):
        lines = data[data[by] == key]
        banded = labels if len(labels) <= MANY else [own]
        curves(panel, lines, styles, bands=banded if "low" in lines else ())
        ours = lines[lines["kind"] != LOG] if "kind" in lines else lines
        panel.set_title(
            figure_style.literal(titles[key]) + ("" if len(ours) else " (authors' logs alone)")
        )
        panel.set_xlabel("Round")
        values = {label: printed[key, label] for label in labels if (key, label) in printed}
        if lines.empty:
            figure_style.not_run(panel)
            continue
        at_the_end(panel, float(lines["round"].max()), values, styles)
        focus(panel, with_ends(lines, values))
    for panel in axes[::wide]:
        panel.set_ylabel("Accuracy (%)")
    left_out = [
        figure_style.literal(title) for key, title in titles.items() if key not in with_runs
    ]
    if "kind" in data and (data["kind"] == LOG).any():
        hollow(axes[0], "hollow: authors' logs")
    title = f"Not run: {', '.join(left_out)}" if left_out else ""
    figure_style.legend_below(canvas, axes, title=title, order=list(styles))
    return canvas


def hollow(axes: Axes, label: str) -> None:
    """Add what hollow marks mean to the legend."""
    axes.plot([], [], "o", label=label, markerfacecolor="white", color="0.35", markersize=3.5)


def with_ends(lines: pd.DataFrame, values: Mapping[str, float]) -> pd.DataFrame:
    """Return lines with the reported values behind their last round."""
    last = float(lines["round"].max()) + 1
    ends = pd.DataFrame({"label": list(values), "mean": list(values.values()), "round": last})
    return pd.concat([lines, ends], ignore_index=True) if values else lines


def at_the_end(
    axes: Axes,
    last: float,
    values: Mapping[str, float],
    styles: Mapping[str, Mapping[str, Any]],
    name: str = "reported",
) -> None:
    """Draw reported values as diamonds behind the last round, in the colours of their lines."""
    first = axes.get_xlim()[0]
    axes.set_xlim(first, last + 0.08 * (last - first))
    for place, (label, value) in enumerate(values.items()):
        axes.plot(
            [last + 0.05 * (last - first)],
            [value],
            "D",
            color=styles[label]["color"],
            markerfacecolor="white",
            markersize=4.5,
            label=f"_{name}" if place else name,
        )


# -- marks, densities, maps ------------------------------------------------------------------------


def dots(
    axes: Axes, values: pd.DataFrame, groups: Sequence[str], styles: Mapping[str, Mapping[str, Any]]
) -> None:
    """Draw groups of means with their deviation: reported ones hollow, ours filled beside them;
    `values` has the index (label, group) and ours, std, published, published_std.
    """
    width = 0.84 / max(1, len(styles))
    places = np.arange(len(groups), dtype=float)
    table = values.reindex(columns=["ours", "std", "published", "published_std"])

    def column(name: str, label: str) -> np.ndarray:
        return np.array([float(table[name].get((label, g), np.nan)) for g in groups])

    for index, (label, style) in enumerate(styles.items()):
        x = places + (index - (len(styles) - 1) / 2) * width
        base = {"color": style["color"], "fmt": style["marker"], "elinewidth": 1.0}
        for side, shift, filled in (("published", -0.12, False), ("ours", 0.12, True)):
            means = column(side, label)
            deviation = "std" if filled else "published_std"
            axes.errorbar(
                x + shift * width,
                means,
                yerr=np.nan_to_num(column(deviation, label)),
                label=figure_style.literal(label) if filled else "_reported",
                markersize=5 if filled else 4.5,
                markerfacecolor=style["color"] if filled else "white",
                **base,
            )
    axes.set_xticks(places, list(groups))
    axes.grid(axis="x", visible=False)


def ridge(axes: Axes, samples: Sequence[np.ndarray], labels: Sequence[str], step: float) -> None:
    """Draw overlapping densities of shares in 0..1, one line per sample, the first on top:
    histograms, smoothed over at least their `step`.
    """
    limits, width = (0.0, 1.0), max(0.03, 0.6 * step)
    grid = np.linspace(*limits, 241)
    for place, sample in enumerate(samples):
        base = len(samples) - 1 - place
        counts, edges = np.histogram(sample, bins=200, range=limits)
        centres = (edges[:-1] + edges[1:]) / 2
        density = np.exp(-0.5 * ((grid[:, None] - centres) / width) ** 2) @ counts
        height = 1.45 * density / max(float(density.max()), 1e-12)
        colour = figure_style.PALETTE[place % len(figure_style.PALETTE)]
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
    """Draw a heat map of values from `bottom`, mostly zero, to `top`."""
    colours = sns.color_palette(HEAT, as_cmap=True)
    axes.imshow(values, aspect="auto", interpolation="nearest", cmap=colours, vmin=bottom, vmax=top)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)


def heat_scale(top: float) -> ScalarMappable:
    """Return the colours of `heat`, for a colour bar."""
    return ScalarMappable(Normalize(0, top), sns.color_palette(HEAT, as_cmap=True))
