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

MAX_MARKED = 12
"""Points of a line up to which it has markers; a single point would not show without."""


# -- lines -----------------------------------------------------------------------------------------

LOG = "authors' log"
"""The `kind` of lines from the authors' logs."""


def curves(
    axes: Axes,
    data: pd.DataFrame,
    styles: Mapping[str, Mapping[str, Any]],
    *,
    x: str = "round",
    bands: Sequence[str] = (),
) -> None:
    """Draw lines of `mean` against `x`, one per label, with bands from `low` to `high` for the
    labels in `bands`, and hollow markers for lines from the authors' logs.
    """
    logged = data["kind"] == LOG if "kind" in data else pd.Series(False, index=data.index)
    for label, style in styles.items():
        line = data[(data["label"] == label) & ~logged].sort_values(x)
        if len(line):
            plain = {**style, "marker": style["marker"] if len(line) <= MAX_MARKED else ""}
            axes.plot(line[x], line["mean"], label=figure_style.literal(label), **plain)
        if label in bands and len(line):
            colour = style["color"]
            axes.fill_between(line[x], line["low"], line["high"], color=colour, alpha=0.18, lw=0)
        log = data[(data["label"] == label) & logged].sort_values(x)
        if len(log):
            hollow = {"alpha": 0.9, **style, "markerfacecolor": "white"}
            hollow["linewidth"] = style["linewidth"] / 2
            label_of_log = "_log" if len(line) else figure_style.literal(label)
            axes.plot(log[x], log["mean"], label=label_of_log, **hollow)


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


MAX_BANDS = 6
"""Lines of a panel up to which all have a band; of more, only the paper's own method."""
OUTLIER_GAP = 5.0
"""Points below all other lines from which on one line does not set a panel's limits."""


def focus(axes: Axes, data: pd.DataFrame) -> None:
    """Set the limits of a panel of percentages to the range of its lines after the first fifth of
    the rounds. Lines that end far below all others are left out and named at the foot of the panel.
    """
    rounds = data["round"] if "round" in data else pd.Series(0, index=data.index)
    late = data[rounds >= rounds.max() / 5]
    last_values = data.loc[rounds.sort_values(kind="stable").index].groupby("label")["mean"].last()
    last_values, outliers = last_values.dropna().sort_values(), list[str]()
    while len(last_values) > 3 and (gap := last_values.iloc[1] - last_values.iloc[0]) > OUTLIER_GAP:
        if gap < last_values.iloc[-1] - last_values.iloc[1]:
            break
        outliers.append(f"{last_values.index[0]} ends at {last_values.iloc[0]:.0f} %")
        last_values = last_values.iloc[1:]
    values = late.loc[late["label"].isin(last_values.index), "mean"].to_numpy(dtype=float)
    axes.set_ylim(*limits(values))
    axes.text(
        *(0.98, 0.02, "; ".join(outliers)),
        transform=axes.transAxes,
        ha="right",
        fontsize=8,
        color="0.35",
    )


PER_ROW = 4


def curve_panels(
    new_canvas: Any,
    data: pd.DataFrame,
    titles: Mapping[str, str],
    labels: Sequence[str],
    own: str = "",
    reported: Mapping[tuple[str, str], float] | None = None,
    *,
    by: str = "column",
    styles: Mapping[str, Mapping[str, Any]] | None = None,
) -> Canvas:
    """Draw a panel per column that has lines, with the authors' logs in the same axes, and the
    `reported` values by column and label at the right end.
    """
    printed, styles = reported or {}, styles or figure_style.looks(labels, own)
    with_runs = {key for key in titles if (data[by] == key).any()}
    shown = [key for key in titles if key in with_runs] or list(titles)[:1]
    per_row = min(PER_ROW, len(shown))
    around = 0.8 if per_row > 1 else 1.6  # of a narrow figure, whose legend has more rows
    canvas = new_canvas(max(4.4, 3.4 * per_row), 2.7 * -(-len(shown) // per_row) + around)
    axes = figure_style.panels(canvas, len(shown), per_row)
    for panel, key in zip(axes, shown, strict=True):
        lines = data[data[by] == key]
        banded = labels if len(labels) <= MAX_BANDS else [own]
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
    for panel in axes[::per_row]:
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
    """Add a legend entry for hollow markers."""
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
    for index, (label, value) in enumerate(values.items()):
        axes.plot(
            [last + 0.05 * (last - first)],
            [value],
            "D",
            color=styles[label]["color"],
            markerfacecolor="white",
            markersize=4.5,
            label=f"_{name}" if index else name,
        )


# -- marks, densities, maps ------------------------------------------------------------------------


def dots(
    axes: Axes, values: pd.DataFrame, groups: Sequence[str], styles: Mapping[str, Mapping[str, Any]]
) -> None:
    """Draw groups of means with their deviation: reported ones hollow, ours filled beside them.
    `values` has the index (label, group) and the columns ours, std, printed, printed_std.
    """
    width = 0.84 / max(1, len(styles))
    positions = np.arange(len(groups), dtype=float)
    table = values.reindex(columns=["ours", "std", "printed", "printed_std"])

    def column(name: str, label: str) -> np.ndarray:
        return np.array([float(table[name].get((label, group), np.nan)) for group in groups])

    for index, (label, style) in enumerate(styles.items()):
        x = positions + (index - (len(styles) - 1) / 2) * width
        base = {"color": style["color"], "fmt": style["marker"], "elinewidth": 1.0}
        for side, shift, filled in (("printed", -0.12, False), ("ours", 0.12, True)):
            means = column(side, label)
            deviation = "std" if filled else "printed_std"
            axes.errorbar(
                x + shift * width,
                means,
                yerr=np.nan_to_num(column(deviation, label)),
                label=figure_style.literal(label) if filled else "_reported",
                markersize=5 if filled else 4.5,
                markerfacecolor=style["color"] if filled else "white",
                **base,
            )
    axes.set_xticks(positions, list(groups))
    axes.grid(axis="x", visible=False)


BIN = 0.04
"""Least width of a histogram's bins, as a share."""


def ridge(axes: Axes, samples: Sequence[np.ndarray], labels: Sequence[str], step: float) -> None:
    """Draw histograms of shares in 0..1 above each other, one per sample, the first on top. Shares
    are multiples of `step`, and a bin is centred on one or covers several.
    """
    width = step * max(1, round(BIN / step))
    edges = np.arange(-step / 2, 1 + step / 2 + width, width)
    centres = (edges[:-1] + edges[1:]) / 2
    for index, sample in enumerate(samples):
        base = len(samples) - 1 - index
        counts, _ = np.histogram(sample, bins=edges)
        height = 0.85 * counts / max(int(counts.max()), 1)
        colour = figure_style.PALETTE[0]
        axes.fill_between(centres, base, base + height, step="mid", color=colour, alpha=0.5, lw=0)
        axes.plot(centres, base + height, color=colour, drawstyle="steps-mid", linewidth=1)
    axes.set_yticks(range(len(samples)), list(reversed(list(labels))))
    axes.set_xlim(edges[0], edges[-1])
    axes.set_ylim(0, len(samples))


HEAT = "mako_r"
"""A perceptually uniform colour map that is readable in grey."""


def heat(axes: Axes, values: np.ndarray, *, top: float, bottom: float = 0.0) -> None:
    """Draw a heat map of mostly zero values from `bottom` to `top`."""
    colours = sns.color_palette(HEAT, as_cmap=True)
    axes.imshow(values, aspect="auto", interpolation="nearest", cmap=colours, vmin=bottom, vmax=top)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)


def heat_scale(top: float) -> ScalarMappable:
    """Return the colours of `heat`, for a colour bar."""
    return ScalarMappable(Normalize(0, top), sns.color_palette(HEAT, as_cmap=True))


def dot_panels(
    new_canvas: Any,
    data: pd.DataFrame,
    order: Sequence[str],
    titles: Mapping[str, str],
    *,
    marks: Mapping[str, str],
    line: str = "",
    logarithmic: Sequence[str] = (),
) -> Canvas:
    """Draw a panel per title, with a line per row, the first on top. `data` has the columns panel,
    row, value and filled, and may have half of an interval; a row without a value has a cross at
    the left. A dashed `line` is drawn at the value of one row. `marks` has the legend's words for
    "filled", "hollow" and "cross".
    """
    canvas = new_canvas(2 + 2.6 * len(titles), 1.5 + 0.2 * max(6, len(order)))
    axes = figure_style.panels(canvas, len(titles), len(titles), sharey=True)
    axes[0].set_yticks([-index for index in range(len(order))], map(figure_style.literal, order))
    axes[0].set_ylim(-max(1, len(order)) + 0.2, 0.8)
    heights = {row: -index for index, row in enumerate(order)}
    colour = figure_style.PALETTE[0]
    for panel, (key, title) in zip(axes, titles.items(), strict=True):
        points = data[data["panel"] == key]
        panel.set_title(figure_style.literal(title) + ("" if len(points) else "\n(not run)"))
        for filled, group in points.dropna(subset=["value"]).groupby("filled"):
            panel.errorbar(
                group["value"],
                group["row"].map(heights),
                xerr=group["half"] if "half" in group and group["half"].notna().all() else None,
                fmt="o",
                color=colour,
                markerfacecolor=colour if filled else "white",
                markersize=4,
                linewidth=1,
            )
        none = points.loc[points["value"].isna(), "row"].map(heights)
        panel.plot(
            [0.02] * len(none), none, "x", color="0.35", transform=panel.get_yaxis_transform()
        )
        for value in points.loc[points["row"] == line, "value"]:
            panel.axvline(value, color="0.35", linestyle="--", linewidth=0.8, zorder=0)
        if key in logarithmic:
            _logarithmic(panel, points["value"])
    looks = {
        "filled": {"marker": "o", "color": colour},
        "hollow": {"marker": "o", "color": colour, "markerfacecolor": "white"},
        "cross": {"marker": "x"},
    }
    handles = [
        figure_style.handle(text, linestyle="none", markersize=5, **looks[mark])
        for mark, text in marks.items()
    ]
    if line:
        handles.append(figure_style.handle(figure_style.literal(line), linestyle="--"))
    canvas.legend(handles=handles, loc="outside lower center", ncols=len(handles))
    return canvas


def _logarithmic(axes: Axes, values: pd.Series) -> None:
    """Set an axis that is logarithmic beyond the lowest positive value, and has a zero."""
    lowest = float(values[values > 0].min()) if (values > 0).any() else 1.0
    axes.set_xscale("symlog", linthresh=lowest)
    powers = [10.0**power for power in range(10) if lowest < 10.0**power <= values.max()]
    axes.set_xticks([0.0, *powers], ["0", *(f"{power:,.0f}" for power in powers)])
