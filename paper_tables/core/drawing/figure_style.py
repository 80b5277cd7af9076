"""The common look of all figures: sizes, colours of methods, panels and legends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

PALETTE: tuple[Any, ...] = (
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#56b4e9", "#949494",
)  # fmt: skip
"""Seaborn's colour-blind-safe colours without the two that are too pale for lines, written out so
that tables do not import Seaborn. Lines also differ in dash and marker.
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


def new_canvas(width: float, height: float) -> Canvas:
    """Return an empty figure that belongs to no window and no global state."""
    figure = Canvas(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def panels(canvas: Canvas, count: int, per_row: int, **options: Any) -> list[Axes]:
    """Return a grid of axes, without the unused ones."""
    rows = -(-count // per_row)
    axes = canvas.subplots(rows, min(per_row, count), squeeze=False, **options).ravel()
    for unused in axes[count:]:
        unused.remove()
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
    """Return colour, dash and marker of a line."""
    dash = colour if dash is None else dash
    return {
        "color": PALETTE[colour % len(PALETTE)],
        "linestyle": DASHES[dash % len(DASHES)],
        "marker": MARKERS[(colour + dash) % len(MARKERS)],
        "markersize": 3.5,
        "linewidth": 1.2,
    }


def looks(labels: Sequence[str], own: str = "") -> dict[str, dict[str, Any]]:
    """Return the style of every line: a paper's own method in black, other methods the same in all
    figures, their variants in their colour, and labels that are no method by their position.
    """
    styles: dict[str, dict[str, Any]] = {}
    for index, label in enumerate(labels):
        name = label.partition(",")[0]
        if own and name == own:
            styles[label] = look(0, 0 if label == own else index) | {"color": "black"}
            styles[label] |= {"linewidth": 2.0, "zorder": 5} if label == own else {}
        elif name in METHODS:
            colour, dash = METHODS[name]
            styles[label] = look(colour, dash if label == name else dash + index)
        else:
            styles[label] = look(index)
    return styles


def literal(name: str) -> str:
    """Return a name whose dollar signs do not start a formula."""
    return name.replace("$", r"\$")


def not_run(axes: Axes) -> None:
    """Write the reason into an empty panel, and remove its axis ticks."""
    axes.text(
        0.5, 0.5, "not run at this scale", transform=axes.transAxes, ha="center", color="0.35"
    )
    axes.set_xticks([])
    axes.set_yticks([])


def handle(label: str, **style: Any) -> Line2D:
    """Return a legend entry."""
    return Line2D([], [], label=label, **{"color": "0.35", **style})


def legend_below(
    canvas: Canvas,
    axes: Sequence[Axes],
    columns: int = 0,
    title: str = "",
    order: Sequence[str] = (),
) -> None:
    """Draw one legend for all panels, in as many columns as fit, our lines before the logs."""
    handles: dict[str, Any] = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            earlier = handles.get(label)
            hollow = isinstance(earlier, Line2D) and earlier.get_markerfacecolor() == "white"
            handles[label] = handle if earlier is None or hollow else earlier
    names = [name for name in map(literal, order) if name in handles]
    names += [name for name in handles if name not in names]
    fits = int(canvas.get_size_inches()[0] / (0.6 + 0.075 * max(map(len, names), default=0)))
    canvas.legend(
        [handles[name] for name in names],
        names,
        loc="outside lower center",
        ncols=max(1, min(columns or fits, len(names))),
        title=title or None,
        title_fontsize=8,
    )
