"""The markers of the paper's Figures 2 and 3 as numbers.

`published/figure_curves.csv.gz` (figure, dataset, method, x, accuracy, half_width) was read from
the images in the paper's PDF by `studies/figures.py`; x is a round, or a number of training images.
The last markers of Figure 2 beside Table 1 tell the reading error.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

FILE = Path(__file__).parent / "published" / "figure_curves.csv.gz"


@cache
def read() -> pd.DataFrame:
    """Return all markers that were read."""
    return pd.read_csv(FILE)


def drawn(figure: str, dataset: str, method: str) -> pd.Series:
    """Return the accuracies of one line by round, or by number of training images."""
    one = read().query("figure == @figure and dataset == @dataset and method == @method")
    return pd.Series(one["accuracy"].to_numpy(float), index=one["x"].to_numpy(int))
