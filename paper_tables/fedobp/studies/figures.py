"""Read FedOBP's curves, sweeps and layer shares from the authors' vector figures.

git clone https://github.com/uglyghost/FedOBP_results results && git -C results checkout f64b10a
pip install pymupdf
python paper_tables/fedobp/studies/figures.py results    # writes published/figure_*.csv.gz

A line of such a figure is one path with a vertex for every point. A panel's ticks, and the words
beside them, say which value a place has. Last digits: a printed page has about 0.001 points of
accuracy on its finest step. Curves are compared with the logs of the same folder: the logged
accuracy of a round's participants before they train, smoothed by a Savitzky-Golay filter.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.signal import savgol_filter

from repfl.paper_tables.fedobp.curves import ORDER, WINDOW
from repfl.paper_tables.fedobp.settings import FOLDER

METHODS = {
    "1f77b4": "Local-Only", "ff7f0e": "FedAvg", "2ca02c": "FedPer", "d62728": "APFL",
    "9467bd": "LG-FedAvg", "8c564b": "FedRep", "e377c2": "pFedFDA", "7f7f7f": "FLUTE",
    "bcbd22": "FedDPA", "17becf": "FLOCO", "ff0000": "FedOBP",
}  # fmt: skip
NORMS = {
    "d62728": "NoNorm", "2ca02c": "LayerNorm", "1f77b4": "GlobalNorm w/o CLS",
    "ff7f0e": "GlobalNorm with CLS",
}  # fmt: skip
SCORES = {"0000ff": "I_F", "ffa500": "I_G", "ff0000": "I_O"}
LAYERS = {"1f77b4": "conv1", "ff7f0e": "conv2", "2ca02c": "fc1", "d62728": "classifier"}
LOGS = {
    "local": "Local-Only", "fedavg": "FedAvg", "fedper": "FedPer", "apfl": "APFL",
    "lgfedavg": "LG-FedAvg", "fedrep": "FedRep", "pfedfda": "pFedFDA", "flute": "FLUTE",
    "feddpa": "FedDPA", "floco": "FLOCO", "FedOBP": "FedOBP",
}  # fmt: skip
MIN_PANEL = (250.0, 200.0)
"""Width and height in points of the smallest rectangle that is a panel."""
MIN_VERTICES = 10
"""Ticks, grids and markers have fewer."""
LONG_TICK = 6.0
ZOOM = 0.99
"""From here on a sweep is read from its second panel, which is a hundred times wider."""
QUANTILES = np.array(
    [*(i / 10 for i in range(10)), *(0.99 + i / 1000 for i in range(10)), 0.9991, 0.9993, 0.9995,
     0.9997, 0.9999, 0.99991, 0.99993, 0.99995, 0.99997, 0.99999, 0.999999, 1.0]
)  # fmt: skip
"""The quantiles of the authors' logs; a drawn one is the nearest of them."""

Scale = Callable[[float], float]


def panels(page: Any) -> Iterator[tuple[str, Scale, Scale, list[tuple[str, np.ndarray]]]]:
    """Yield every panel from left to right: its title, the scales of its axes, and its lines as
    colour and vertices in values.
    """
    drawings, words = page.get_drawings(), page.get_text("words")
    frames: list[Any] = []
    for drawing in drawings:
        box = drawing["rect"]
        large = box.width > MIN_PANEL[0] and box.height > MIN_PANEL[1]
        whole = box.width > page.rect.width / 2
        known = any(abs(box.x0 - each.x0) < 1 for each in frames)
        if "f" in drawing["type"] and large and not whole and not known:
            frames.append(box)
    for box in sorted(frames, key=lambda each: each.x0):
        horizontal, vertical = _scale(box, drawings, words, 0), _scale(box, drawings, words, 1)
        lines = [
            (colour_of(drawing), vertices(drawing, horizontal, vertical))
            for drawing in drawings
            if drawing["type"] == "s" and drawing.get("color") and inside(drawing["rect"], box)
            and len(drawing["items"]) >= MIN_VERTICES
        ]  # fmt: skip
        title = [w[4] for w in words if box.x0 < (w[0] + w[2]) / 2 < box.x1 and w[1] < 5]
        yield " ".join(title), horizontal, vertical, lines


def inside(line: Any, box: Any) -> bool:
    """Return whether a line lies in a panel, from left to right."""
    return bool(box.x0 - 5 <= line.x0 and line.x1 <= box.x1 + 5)


def colour_of(drawing: Any) -> str:
    """Return a line's colour as six hexadecimal digits."""
    return "".join(f"{round(255 * part):02x}" for part in drawing["color"])


def vertices(drawing: Any, horizontal: Scale, vertical: Scale) -> np.ndarray:
    """Return the vertices of a path in values of the axes."""
    points: list[tuple[float, float]] = []
    for item in drawing["items"]:
        points += [(point.x, point.y) for point in item[1:3]] if item[0] == "l" else []
    kept = [p for i, p in enumerate(points) if not i or p != points[i - 1]]
    return np.array([(horizontal(x), vertical(y)) for x, y in kept])


def _scale(box: Any, drawings: Any, words: Any, axis: int) -> Scale:
    """Return what value a place has, from ticks and the numbers beside them: 0 is horizontal."""
    ticks, labels = [], []
    for drawing in drawings:
        rect = drawing["rect"]
        size = (rect.width, rect.height)
        edge = abs(rect.y0 - box.y1) if axis == 0 else abs(rect.x1 - box.x0)
        at = (rect.x0, rect.y0)[axis]
        along = (box.x0, box.y0)[axis] - 2 <= at <= (box.x1, box.y1)[axis] + 2
        if along and size[axis] < 1 and size[1 - axis] < LONG_TICK and edge < 1.5:
            ticks.append(at)
    for word in words:
        if not word[4].replace(".", "", 1).isdigit():
            continue
        beside = (
            -5 < word[1] - box.y1 < 10 and box.x0 - 25 < word[0] < box.x1 + 25
            if axis == 0
            else word[2] <= box.x0 + 1 and box.x0 - 50 < word[0]
        )
        if beside and (axis == 0 or word[1] < box.y1 - 3):
            labels.append(((word[axis] + word[axis + 2]) / 2, float(word[4])))
    pairs = [(min(ticks, key=lambda tick: abs(tick - at)), value) for at, value in labels]
    slope, start = np.polyfit([at for at, _ in pairs], [value for _, value in pairs], 1)
    return lambda place: float(start + slope * place)


def by_epoch(
    points: np.ndarray, epochs: int, floor: float = -np.inf
) -> Iterator[tuple[int, float]]:
    """Yield epoch and value, without the epochs at which a line is cut off below its panel."""
    order = np.argsort(points[:, 0], kind="stable")
    at, values = points[order].T
    for epoch in range(epochs):
        if at[0] - 1e-6 <= epoch <= at[-1] + 1e-6:
            value = float(np.interp(epoch, at, values))
            if value > floor + 1e-6:
                yield epoch, value


def open_page(path: Path) -> Any:
    """Return the first page; PyMuPDF is needed here alone."""
    import pymupdf

    return pymupdf.open(path)[0]


def curves(folder: Path) -> pd.DataFrame:
    """Return figures 2, 3 and 5: figure, dataset, line, epoch, accuracy."""
    rows = []
    sources = (("fig2", "*convergence*_01.pdf"), ("fig3", "*convergence*_05.pdf"))
    for figure, pattern in (*sources, ("fig5", "*ablation*.pdf")):
        for path in sorted(folder.glob(pattern)):
            page = open_page(path)
            frames = panels(page)
            for title, _, vertical, lines in frames:
                floor = vertical(max(d["rect"].y1 for d in _frames(page)))
                for colour, points in lines:
                    name = (NORMS if figure == "fig5" else METHODS).get(colour)
                    rows += [
                        (figure, title, name, epoch, round(value, 2))
                        for epoch, value in by_epoch(points, 400, floor)
                        if name
                    ]
    return pd.DataFrame(rows, columns=["figure", "dataset", "line", "epoch", "accuracy"])


def _frames(page: Any) -> list[Any]:
    """Return the drawings of the panels' backgrounds."""
    return [
        d for d in page.get_drawings()
        if "f" in d["type"] and MIN_PANEL[0] < d["rect"].width < page.rect.width / 2
        and d["rect"].height > MIN_PANEL[1]
    ]  # fmt: skip


def sweeps(folder: Path) -> pd.DataFrame:
    """Return figure 4: dataset, score, quantile, accuracy."""
    points_of: dict[tuple[str, str, float], float] = {}
    for path in sorted(folder.glob("*score_comparison*.pdf")):
        for title, _, _, lines in panels(open_page(path)):
            zoomed = f"({ZOOM}" in title
            for colour, points in lines:
                for q, accuracy in points:
                    nearest = float(QUANTILES[np.abs(QUANTILES - q).argmin()])
                    if colour in SCORES and zoomed == (nearest >= ZOOM):
                        key = (title.split()[0], SCORES[colour], nearest)
                        points_of[key] = round(float(accuracy), 2)
    rows = [(*key, value) for key, value in points_of.items()]
    return pd.DataFrame(rows, columns=["dataset", "score", "q", "accuracy"])


def layers(folder: Path) -> pd.DataFrame:
    """Return figure 6: dataset, layer, epoch on the figure's axis, share of personal entries."""
    rows = []
    for path in sorted(folder.glob("*param_distribution*.pdf")):
        for title, _, _, lines in panels(open_page(path)):
            for colour, points in lines:
                if colour in LAYERS:
                    rows += [
                        (title, LAYERS[colour], epoch, round(abs(value), 3))
                        for epoch, value in by_epoch(points, 440)
                    ]
    return pd.DataFrame(rows, columns=["dataset", "layer", "epoch", "share"])


def beside_logs(drawn: pd.DataFrame, results: Path) -> pd.DataFrame:
    """Return how far each curve of figures 2 and 3 lies from the log nearest to it, smoothed: mean
    and largest absolute difference in points.
    """
    lines = {key: part.set_index("epoch")["accuracy"] for key, part in drawn.groupby(
        ["figure", "dataset", "line"])}  # fmt: skip
    rows = []
    for path in sorted(results.glob("accuracy/*/alpha=*/*/*/*/metrics.csv")):
        alpha, method, dataset = path.parts[-5], path.parts[-4], path.parts[-3]
        key = ("fig2" if alpha.endswith("0.1") else "fig3", dataset.upper(), LOGS.get(method, ""))
        if key in lines:
            logged = savgol_filter(pd.read_csv(path)["accuracy_test_before"], WINDOW, ORDER)
            gaps = (lines[key] - logged[lines[key].index]).abs()
            rows.append((*key, path.parts[-2], gaps.mean(), gaps.max()))
    frame = pd.DataFrame(rows, columns=["figure", "dataset", "line", "log", "mean", "largest"])
    return frame.sort_values("mean").groupby(["figure", "dataset", "line"], as_index=False).first()


def main(folder: Path) -> None:
    """Write the three files, and say how far the curves lie from the logs."""
    figures = folder / "figures"
    drawn = curves(figures)
    written = {"curves": drawn, "sweeps": sweeps(figures), "layers": layers(figures)}
    for name, frame in written.items():
        path = FOLDER / "published" / f"figure_{name}.csv.gz"
        frame.to_csv(path, index=False, compression={"method": "gzip", "mtime": 0})
        print(f"{path.name}: {len(frame):,} points")
    near = beside_logs(drawn, folder / "results")
    print(f"{len(near)} curves beside their logs, largest mean difference {near['mean'].max():.3f}")
    print(near.nlargest(5, "mean").to_string(index=False))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
