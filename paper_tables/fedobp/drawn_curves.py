"""The curves of the vector figures in the authors' repository, as numbers: earlier versions of the
paper's figures 2, 3, 5, of its sweeps (figure 4) and layer shares (figure 6).

`published/figure_*.csv.gz` were read from uglyghost/FedOBP_results at f64b10a (`figures/*.pdf`) by
`studies/figures.py`. A drawn curve is a log: the accuracy of a round's participants before they
train, smoothed by `smooth`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.signal import savgol_filter

FOLDER = Path(__file__).parent / "published"
WINDOW, ORDER = 20, 2


def smooth(values: np.ndarray) -> np.ndarray:
    """Smooth as the figures are; curves shorter than the window stay as they are."""
    return values if len(values) < WINDOW else np.asarray(savgol_filter(values, WINDOW, ORDER))


@cache
def read(name: str) -> pd.DataFrame:
    """Return the points of `curves` (figure, dataset, line, epoch, accuracy), `sweeps` (dataset,
    score, q, accuracy) or `layers` (dataset, layer, epoch, share).
    """
    return pd.read_csv(FOLDER / f"figure_{name}.csv.gz")


@cache
def _lines() -> dict[tuple[str, ...], pd.Series]:
    """Return every curve by figure, data set and line."""
    groups = read("curves").groupby(["figure", "dataset", "line"])
    return {
        tuple(map(str, names)): pd.Series(
            one["accuracy"].to_numpy(float), index=one["epoch"].to_numpy(int) + 1
        )
        for names, one in groups
    }


def drawn(figure: str, dataset: str, line: str) -> pd.Series:
    """Return one curve by round, empty if it is not drawn. Epoch 0 of a figure is round 1."""
    nothing = pd.Series(dtype=float, index=pd.Index([], dtype=int))
    return _lines().get((figure, dataset, line), nothing).copy()
