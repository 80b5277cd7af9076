"""Read the markers of FedSelect's Figures 2 and 3 from the images in the paper's PDF.

pip install pymupdf
python paper_tables/fedselect/studies/figures.py FedSelect.pdf  # published/figure_curves.csv.gz

Both figures are images on page 7 of the CVPR version, 13,984 x 3,734 and 5,088 x 3,621 pixels: 31
to 62 pixels a point of accuracy. Axes are those of the printed ticks and grid. A marker is found
where its shape covers most pixels of its line's colour and fewest of the background; it may be
partly hidden by other lines. `half_width` is half the range of places that are about as good, in
points. Markers of which less than a fifth is visible are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.signal import correlate

from repfl.paper_tables.fedselect.settings import FOLDER

REACH = 36
"""Pixels from the middle of a marker to the edge of the window in which it is looked for."""
BACKGROUND_WEIGHT, AS_GOOD, LEAST_VISIBLE = 3.0, 0.015, 0.2
WHITE, GRID = 200, 0xB0
SIZE = 24.5
FIG2 = {
    "FedSelect": ("d62728", "hexagon"), "FedAvg + FT": ("ff7f0e", "circle"),
    "LG-FedAvg": ("1f77b4", "square"), "FedRep": ("9467bd", "triangle"),
    "FedPer": ("2ca02c", "plus"), "FedAvg": ("bcbd22", "star"),
    "FedBABU": ("e377c2", "cross"), "Ditto": ("7f7f7f", "diamond"),
}  # fmt: skip
FIG3 = {
    "FedAvg": "1f77b4", "FedAvg + FT": "ff7f0e", "FedPAC": "2ca02c", "FedRep": "9467bd",
    "FedPer": "8c564b", "FedBABU": "e377c2", "Ditto": "7f7f7f", "LG-FedAvg": "bcbd22",
    "FedSelect": "d62728",
}  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """Where a panel's markers stand, in pixels."""

    figure: str
    dataset: str
    places: Mapping[int, float]
    """Column of every round or number of images."""
    row: float
    value: float
    """Row of a tick, and its accuracy."""
    scale: float
    """Pixels a point."""
    columns: tuple[float, float]
    rows: tuple[int, int]
    lines: Mapping[str, tuple[str, str]]


def fig2(
    dataset: str, left: float, step: float, rounds: Sequence[int], axis: tuple[float, float, float]
) -> Panel:
    """Return a panel of Figure 2; `axis` is a tick's row, its accuracy, and the scale."""
    places = {round_: left + step * round_ for round_ in rounds}
    return Panel("fig2", dataset, places, *axis, (left + 4, left + 3046), (809, 3362), FIG2)


TENS = range(0, 201, 10)
CIRCLES = {method: (colour, "circle") for method, colour in FIG3.items()}
SIZES = {20: 599.5, 40: 1069.5, 100: 2478.5, 200: 4827.5}
PANELS = (
    fig2("CIFAR-10", 388.5, 15.26, TENS, (1004.5, 80, 32.414)),
    fig2("CIFAR10-C", 3862.5, 15.255, TENS, (999.5, 70, 37.933)),
    fig2("Mini-ImageNet", 7336.5, 15.26, TENS, (841.5, 40, 61.675)),
    fig2("OfficeHome", 10811.5, 101.74, range(30), (986.5, 80, 31.167)),
    Panel("fig3", "CIFAR-10", SIZES, 527.5, 80, 46.04, (395, 5030), (192, 3260), CIRCLES),
)


def shape(name: str) -> np.ndarray:
    """Return the pixels of a marker, bool, from the middle of its window."""
    y, x = np.mgrid[-REACH : REACH + 1, -REACH : REACH + 1].astype(float)
    across, up = abs(x), abs(y)
    inside = (across <= SIZE) & (up <= SIZE)
    if name == "star":
        from matplotlib.path import Path as Outline

        radii, turns = SIZE * np.array([1, 0.381966] * 5), np.arange(10) * np.pi / 5
        outline = Outline(np.c_[radii * np.sin(turns), -radii * np.cos(turns)])
        return outline.contains_points(np.c_[x.ravel(), y.ravel()]).reshape(x.shape)
    return {
        "hexagon": (across <= 0.866 * SIZE) & (up <= SIZE - across * 0.577),
        "circle": np.hypot(x, y) <= 23.5,
        "square": inside,
        "triangle": (y <= SIZE) & (y >= -SIZE + 2 * across),
        "plus": inside & ((across <= SIZE / 3) | (up <= SIZE / 3)),
        "cross": inside & (abs(across - up) <= SIZE / 2) & (across + up <= 1.5 * SIZE),
        "diamond": across + up <= 33.5,
    }[name]


def marker(
    pixels: np.ndarray, panel: Panel, column: float, colour: str, name: str
) -> tuple[float, float, float]:
    """Return a marker's accuracy, its half width, and the visible share."""
    first, top, bottom = round(column) - REACH, *panel.rows
    band = pixels[top - REACH : bottom + REACH, first : first + 2 * REACH + 1].astype(int)
    rgb = np.array([int(colour[k : k + 2], 16) for k in (0, 2, 4)])
    own = (abs(band - rgb) <= 30).all(2)
    background = (band >= WHITE).all(2) | (abs(band - GRID) <= 8).all(2)
    columns = np.arange(first, first + 2 * REACH + 1)
    clipped = (columns < panel.columns[0]) | (columns > panel.columns[1])
    template = np.where(clipped, 0.0, shape(name))
    covered, empty = (
        correlate(each.astype(float), template, "valid")[:, 0] / template.sum()
        for each in (own, background)
    )
    score = covered - BACKGROUND_WEIGHT * empty
    best = int(score.argmax())
    near = np.flatnonzero(score >= score[best] - AS_GOOD)
    near = near[abs(near - best) < REACH]
    row = (near.min() + near.max()) / 2 + top
    accuracy = panel.value - (row - panel.row) / panel.scale
    return accuracy, (near.max() - near.min()) / 2 / panel.scale, float(covered[best])


def points(images: Mapping[str, np.ndarray]) -> Iterator[dict[str, object]]:
    """Yield every marker that can be seen."""
    for panel in PANELS:
        for method, (colour, name) in panel.lines.items():
            for x, column in panel.places.items():
                accuracy, half, seen = marker(images[panel.figure], panel, column, colour, name)
                if seen >= LEAST_VISIBLE:
                    yield {
                        "figure": panel.figure,
                        "dataset": panel.dataset,
                        "method": method,
                        "x": x,
                        "accuracy": round(accuracy, 2),
                        "half_width": round(half, 2),
                    }


def main(pdf: str) -> None:
    """Write the csv file."""
    import pymupdf

    document, images = pymupdf.open(pdf), {}
    for figure, (reference, *_) in zip(("fig2", "fig3"), document[6].get_images(), strict=True):
        image = pymupdf.Pixmap(document, reference)
        images[figure] = np.frombuffer(image.samples, np.uint8).reshape(image.h, image.w, image.n)
    options = {"method": "gzip", "mtime": 0}
    pd.DataFrame(points(images)).to_csv(
        FOLDER / "published/figure_curves.csv.gz", index=False, compression=options
    )


if __name__ == "__main__":
    main(sys.argv[1])
