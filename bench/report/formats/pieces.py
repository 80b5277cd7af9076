"""The pieces that a narrow page shows below each other instead of a wide figure: a panel each, an
entry of a legend each, and the texts of the whole figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape, unescape
from json import dumps, loads
from math import ceil, floor
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.legend import Legend
from matplotlib.text import Text
from matplotlib.transforms import Bbox

LEAST = 9
"""Pixels of the smallest text of a piece."""
PAD = 1
"""Points around a piece."""
REPEATED = "repeated"
"""The id, until the figure is written, of labels that only a panel on its own shows."""
ATTRIBUTE = "data-pieces"


def prepare(canvas: Canvas, texts: Sequence[str]) -> str:
    """Give every panel of a laid out figure an id and the labels that it shares with others, and
    return the pieces, with the `texts` above it, as an attribute for the figure's SVG. Nested
    figures have none.
    """
    visible = [axes for axes in canvas.axes if axes.get_visible()]
    if not visible or canvas.subfigs:
        return ""
    FigureCanvasAgg(canvas)  # whose renderer measures text
    places: dict[Any, list[Axes]] = {}
    for index, axes in enumerate(visible, 1):
        axes.set_gid(f"panel-{index}")
        place = tuple(round(edge, 3) for edge in axes.get_position().bounds)
        places.setdefault(place, []).append(axes)  # a twin has the place of its panel
    _repeat_labels([axes for axes, *_ in places.values() if not hasattr(axes, "_colorbar")])
    pieces = {
        "texts": [*filter(None, texts), *_shared_texts(canvas)],
        "entries": [piece for legend in canvas.legends for piece in _entries(canvas, legend)],
        "panels": [_panel(canvas, panel) for panel in places.values()],
    }
    return f' {ATTRIBUTE}="{escape(dumps(pieces, ensure_ascii=False))}"'


def read(svg: str) -> dict[str, list[Any]]:
    """Return the pieces of a figure: texts, and per legend entry and panel its place in the figure,
    its least width in pixels and the ids of its elements. Without any, the figure has one form.
    """
    found = svg.partition(f' {ATTRIBUTE}="')[2].partition('"')[0]
    return loads(unescape(found)) if found else {}


def _repeat_labels(panels: list[Axes]) -> None:
    """Repeat in every panel the labels that its row or column has once. A wide page hides them."""
    boxes = {axes: axes.get_position() for axes in panels}
    for axes, box in boxes.items():
        x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
        row = [(other, its) for other, its in boxes.items() if its.y0 < y < its.y1]
        column = [(other, its) for other, its in boxes.items() if its.x0 < x < its.x1]
        _borrow(axes.yaxis.label, [(box.x0 - its.x1, other.yaxis.label) for other, its in row])
        _borrow(axes.xaxis.label, [(box.y0 - its.y1, other.xaxis.label) for other, its in column])
        _borrow(axes.title, [(its.y0 - box.y1, other.title) for other, its in column])
        for axis, side, shared in (
            (axes.xaxis, "labelbottom", axes.get_shared_x_axes()),
            (axes.yaxis, "labelleft", axes.get_shared_y_axes()),
        ):
            if not axis.get_tick_params().get(side, True) and len(shared.get_siblings(axes)) > 1:
                axis.set_tick_params("major", **{side: True})
                for label in axis.get_ticklabels():
                    label.set_gid(REPEATED)


def _borrow(label: Text, others: Iterable[tuple[float, Text]]) -> None:
    """Fill an empty label from the nearest of the others, with their distances, on its side."""
    near = [(gap, other) for gap, other in others if round(gap, 3) >= 0 and other.get_text()]
    if near and not label.get_text():
        _, lender = min(near, key=lambda pair: pair[0])
        label.set(text=lender.get_text(), fontsize=lender.get_fontsize(), gid=REPEATED)


def _shared_texts(canvas: Canvas) -> Iterator[str]:
    """Yield the labels of a figure that belong to no panel, and the titles of its legends."""
    if label := canvas.get_supylabel():
        yield f"Vertical axes: {label}"
    if label := canvas.get_supxlabel():
        yield f"Horizontal axes: {label}"
    yield from filter(None, (legend.get_title().get_text() for legend in canvas.legends))


def _entries(canvas: Canvas, legend: Legend) -> Iterator[list[Any]]:
    """Yield a piece per entry of a legend of the whole figure."""
    legend.set_gid(f"legend-{canvas.legends.index(legend) + 1}")
    for text in legend.get_texts():
        size, box = float(text.get_fontsize()), text.get_window_extent()
        handle = (legend.handlelength + legend.handletextpad) * size * canvas.dpi / 72
        entry = Bbox.from_extents(box.x0 - handle, box.y0, box.x1, box.y1)
        yield _piece(canvas, entry, size, str(legend.get_gid()))


def _panel(canvas: Canvas, panel: list[Axes]) -> list[Any]:
    """Return the piece of a panel, which is of several axes if it has twins."""
    boxes, sizes = list[Bbox | None](), list[float]()
    for axes in panel:
        parts = [part for part in axes.get_children() if isinstance(part, Text | Legend)]
        axis = [axes.xaxis, axes.yaxis] if axes.axison else []
        # as `axes.get_tightbbox`, without placing titles again, which would take twice as long
        boxes += [axes.bbox.frozen(), *(each.get_tightbbox() for each in axis)]
        boxes += [part.get_window_extent() for part in parts if part.get_visible()]
        texts = [text for text in axes.findobj(Text) if isinstance(text, Text)]
        sizes += [float(text.get_fontsize()) for text in texts if text.get_text()]
    ids = " ".join(str(axes.get_gid()) for axes in panel)
    whole = Bbox.union([box for box in boxes if box is not None])
    return _piece(canvas, whole, min(sizes, default=LEAST), ids)


def _piece(canvas: Canvas, box: Bbox, size: float, ids: str) -> list[Any]:
    """Return the place of a piece in the SVG, its least width in pixels and the ids."""
    points = 72 / canvas.dpi
    x, y = floor(box.x0 * points) - PAD, floor(canvas.bbox.height * points - box.y1 * points) - PAD
    width, height = ceil(box.width * points) + 2 * PAD, ceil(box.height * points) + 2 * PAD
    return [f"{x} {y} {width} {height}", ceil(width * LEAST / size), ids]
