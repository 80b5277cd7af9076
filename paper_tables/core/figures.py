"""The common look of all figures, and the shapes that several papers draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from matplotlib.lines import Line2D

PALETTE: tuple[Any, ...] = (
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#56b4e9", "#949494",
)  # fmt: skip
"""Seaborn's colour-blind-safe colours without the two that are too pale for lines, written out so
that a table waits for no drawing. Lines differ in dash and marker as well.
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
    """Context manager: draw with Seaborn's white grid in our sizes."""
    with mpl.rc_context(dict(sns.axes_style("whitegrid")) | RC):
        yield


def sheet(width: float, height: float) -> Canvas:
    """Return an empty figure that belongs to no window and no global state."""
    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(canvas: Canvas, count: int, per_row: int, **options: Any) -> list[Axes]:
    """Return a grid of axes, without the unused ones."""
    rows = -(-count // per_row)
    axes = canvas.subplots(rows, min(per_row, count), squeeze=False, **options).ravel()
    for spare in axes[count:]:
        spare.remove()
    return list(axes[:count])


# -- one look per method ---------------------------------------------------------------------------

LOCAL = ("Local", "Local-Only", "Local Only", "Separate")
BY_COLOUR = (
    ("FedAvg", "FLOCO", "FedAP"),
    ("FedPer", "pFedFDA", "FedPAC"),
    ("FedRep", "FLUTE", "DFedAvgM"),
    ("APFL", "LotteryFL", "FedBABU", "pFedSD"),
    ("LG-FedAvg", "FedALA", "FedBN", "Dis-PFL"),
    ("FedDPA", "Ditto", "FedCAC"),
    ("DFedPGP", "FedAvg + FT"),
)
"""Methods by the colour that they have in every figure, and by dash within a colour."""
METHODS: dict[str, tuple[int, int]] = {
    **{
        name: (colour, dash)
        for colour, names in enumerate(BY_COLOUR)
        for dash, name in enumerate(names)
    },
    **dict.fromkeys(LOCAL, (len(BY_COLOUR), 1)),
}


def look(colour: int, dash: int | None = None) -> dict[str, Any]:
    """Return colour, dash and mark of a line."""
    dash = colour if dash is None else dash
    return {
        "color": PALETTE[colour % len(PALETTE)],
        "linestyle": DASHES[dash % len(DASHES)],
        "marker": MARKERS[(colour + dash) % len(MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.2,
    }


def looks(labels: Sequence[str], own: str = "") -> dict[str, dict[str, Any]]:
    """Return the look of every line: a paper's own method in black, other methods the same in all
    figures, their variants in their colour, and what is no method by its place.
    """
    found: dict[str, dict[str, Any]] = {}
    for place, label in enumerate(labels):
        name = label.partition(",")[0]
        if own and name == own:
            found[label] = look(0, 0 if label == own else place) | {"color": "black"}
            found[label] |= {"linewidth": 2.0, "zorder": 5} if label == own else {}
        elif name in METHODS:
            colour, dash = METHODS[name]
            found[label] = look(colour, dash if label == name else dash + place)
        else:
            found[label] = look(place)
    return found


FEW = 12
"""Lines of so few points have marks; one of a single point would not show without."""


def literal(name: str) -> str:
    """Return a name in which dollar signs begin no formula."""
    return name.replace("$", r"\$")


def not_run(axes: Axes, text: str = "not run at this scale") -> None:
    """Let an empty panel say why, without an axis of numbers that mean nothing."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="0.35")
    axes.set_xticks([])
    axes.set_yticks([])


def legend_below(
    canvas: Canvas,
    axes: Sequence[Axes],
    columns: int = 0,
    title: str = "",
    order: Sequence[str] = (),
) -> None:
    """Draw one legend of all that some panel shows, in as many columns as fit, ours before logs."""
    found: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            known = found.get(label)
            hollow = isinstance(known, Line2D) and known.get_markerfacecolor() == "white"
            found[label] = handle if known is None or hollow else known
    names = [name for name in map(literal, order) if name in found]
    names += [name for name in found if name not in names]
    fits = int(canvas.get_size_inches()[0] / (0.6 + 0.075 * max(map(len, names), default=0)))
    canvas.legend(
        [found[name] for name in names],
        names,
        loc="outside lower center",
        ncols=max(1, min(columns or fits, len(names))),
        title=title or None,
        title_fontsize=8,
    )


# -- lines -----------------------------------------------------------------------------------------

LOG = "authors' log"
"""The kind of a line that is not ours."""


def curves(
    axes: Axes,
    data: pd.DataFrame,
    looks: Mapping[str, Mapping[str, Any]],
    *,
    x: str = "round",
    bands: Sequence[str] = (),
) -> None:
    """Draw lines of `mean` against `x`, one per label, some with bands from `low` to `high`, and
    hollow marks for lines whose `kind` is that of the authors' logs.
    """
    logged = data["kind"] == LOG if "kind" in data else pd.Series(False, index=data.index)
    for label, style in looks.items():
        line = data[(data["label"] == label) & ~logged].sort_values(x)
        if len(line):
            plain = {**style, "marker": style["marker"] if len(line) <= FEW else ""}
            axes.plot(line[x], line["mean"], label=literal(label), **plain)
        if label in bands and len(line):
            colour = style["color"]
            axes.fill_between(line[x], line["low"], line["high"], color=colour, alpha=0.18, lw=0)
        log = data[(data["label"] == label) & logged].sort_values(x)
        if len(log):
            hollow = {**style, "markerfacecolor": "white", "linewidth": 0.6, "alpha": 0.9}
            own = "_log" if len(line) else literal(label)
            axes.plot(log[x], log["mean"], label=own, **hollow)


def limits(values: np.ndarray, margin: float = 0.06) -> tuple[float, float]:
    """Return axis limits of percentages that leave out the empty range below the lowest one."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 100.0
    low, high = float(finite.min()), float(finite.max())
    gap = max(high - low, 2.0)
    top = high + margin * gap
    return max(0.0, low - 2 * margin * gap), min(100.0, top) if high <= 100 else high


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
    per_row: int = 4,
) -> Canvas:
    """Draw a panel per column that has lines, with the authors' logs and the `reported` values by
    column and label in the same axes, at the right end.
    """
    printed, styles = reported or {}, styles or looks(labels, own)
    with_runs = {key for key in titles if (data[by] == key).any()}
    shown = [key for key in titles if key in with_runs] or list(titles)[:1]
    wide = min(per_row, len(shown))
    canvas = sheet(max(5.5, 3.4 * wide), 2.7 * -(-len(shown) // wide) + 0.8)
    axes = panels(canvas, len(shown), wide)
    for panel, key in zip(axes, shown, strict=True):
        lines = data[data[by] == key]
        banded = labels if len(labels) <= MANY else [own]
        curves(panel, lines, styles, bands=banded if "low" in lines else ())
        ours = lines[lines["kind"] != LOG] if "kind" in lines else lines
        panel.set_title(literal(titles[key]) + ("" if len(ours) else " (authors' logs alone)"))
        panel.set_xlabel("Round")
        values = {label: printed[key, label] for label in labels if (key, label) in printed}
        if lines.empty:
            not_run(panel)
            continue
        at_the_end(panel, float(lines["round"].max()), values, styles)
        focus(panel, with_ends(lines, values))
    for panel in axes[::wide]:
        panel.set_ylabel("Accuracy (%)")
    left_out = [literal(title) for key, title in titles.items() if key not in with_runs]
    if "kind" in data and (data["kind"] == LOG).any():
        hollow(axes[0], "hollow: authors' logs")
    title = f"Not run: {', '.join(left_out)}" if left_out else ""
    legend_below(canvas, axes, title=title, order=list(styles))
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
                label=literal(label) if filled else "_reported",
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
    """Draw a heat map of values from `bottom`, mostly zero, to `top`."""
    colours = sns.color_palette(HEAT, as_cmap=True)
    axes.imshow(values, aspect="auto", interpolation="nearest", cmap=colours, vmin=bottom, vmax=top)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(visible=False)


def heat_scale(top: float) -> ScalarMappable:
    """Return the colours of `heat`, for a colour bar."""
    return ScalarMappable(Normalize(0, top), sns.color_palette(HEAT, as_cmap=True))


def handle(label: str, **style: Any) -> Line2D:
    """Return an entry of a legend."""
    return Line2D([], [], label=label, **{"color": "0.35", **style})
