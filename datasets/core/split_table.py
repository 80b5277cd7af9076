"""Who holds what, as a table and as a figure: clients by classes, and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from repfl.datasets.core.partition import ClientSplits, majority_accuracy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDEST = 12  # classes that a printed table has columns for
SIZES = ("train", "test", "val")


def class_table(shares: ClientSplits, labels: np.ndarray, classes: Sequence[str]) -> pd.DataFrame:
    """One row per client: train samples of every class, then the sizes of its parts."""
    counts = np.stack(
        [np.bincount(labels[index], minlength=len(classes)) for index in shares.train]
    )  # [N, C]
    table = pd.DataFrame(counts, columns=list(classes))
    table.index.name = "client"
    for part in SIZES:
        table[f"({part})"] = [len(index) for index in getattr(shares, part)]
    return table


def text(table: pd.DataFrame, shares: ClientSplits, labels: np.ndarray) -> str:
    """The table for a terminal, with a summary; many classes are condensed to the largest ones."""
    counts = table.iloc[:, : -len(SIZES)]
    shown = table if counts.shape[1] <= WIDEST else _condensed(table)
    mean, pooled = majority_accuracy(shares, labels)
    sizes, held = table["(train)"], (counts > 0).sum(axis=1)
    total = int(np.concatenate(shares.train).size)
    distinct = len(np.unique(np.concatenate(shares.train)))
    lines = [
        shown.to_string(),
        (
            f"{len(table)} clients; train samples min {sizes.min():,}, median"
            f" {sizes.median():,.1f}, max {sizes.max():,}; {total:,} in all, {distinct:,} distinct;"
            f" test {table['(test)'].sum():,}"
        ),
        f"classes per client min {held.min()}, mean {held.mean():.1f}, max {held.max()}",
        (
            f"always predicting a client's most frequent class: {100 * mean:.2f} % (mean over"
            f" clients), {100 * pooled:.2f} % (pooled)"
        ),
        f"partition {shares.digest}",
    ]
    return "\n".join(lines)


def _condensed(table: pd.DataFrame) -> pd.DataFrame:
    """Number of classes and the three largest instead of all."""
    counts = table.iloc[:, : -len(SIZES)]
    order = np.argsort(-counts.to_numpy(), axis=1, kind="stable")[:, :3]
    names, values = list(map(str, counts.columns)), counts.to_numpy()
    largest = [
        ", ".join(f"{names[k]} {values[client, k]}" for k in row)
        for client, row in enumerate(order)
    ]
    head = pd.DataFrame(
        {"classes": (counts > 0).sum(axis=1), "largest": largest}, index=table.index
    )
    return head.join(table.iloc[:, -len(SIZES) :])


def draw(table: pd.DataFrame, title: str) -> Figure:
    """A heat map of class shares, clients across, and bars of train and test sizes above."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    counts = table.iloc[:, : -len(SIZES)]
    clients, classes = counts.shape
    figure = Figure(
        figsize=(min(14.0, 4 + 0.12 * clients), min(12.0, 3 + 0.18 * classes)), layout="constrained"
    )
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(1, 3))
    top.bar(range(clients), table["(train)"], width=0.9, label="train")
    top.bar(range(clients), table["(test)"], width=0.9, bottom=table["(train)"], label="test")
    top.set_ylabel("samples")
    top.legend(frameon=False, fontsize="small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    top.set_title(title, fontsize="medium")
    share = counts.div(counts.sum(axis=1).clip(lower=1), axis=0).to_numpy().T  # [C, N]
    picture = bottom.imshow(
        share, aspect="auto", cmap="viridis", vmin=0, vmax=1, interpolation="nearest"
    )
    bottom.set_xlabel("client")
    bottom.set_ylabel("class")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    if classes <= 2 * WIDEST:
        bottom.set_yticks(range(classes), counts.columns, fontsize="small")
    figure.colorbar(picture, ax=bottom, label="share of the client's train samples")
    return figure


def write(table: pd.DataFrame, title: str, folder: Path, name: str) -> list[Path]:
    """The table as .csv and the figure as .png and .pdf."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}{suffix}" for suffix in (".csv", ".png", ".pdf")]
    table.to_csv(paths[0])
    figure = draw(table, title)
    figure.savefig(paths[1], dpi=150)
    figure.savefig(paths[2], metadata={"CreationDate": None})
    return paths
