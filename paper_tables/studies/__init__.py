"""Scripts behind single sentences of the papers' pages. A script NAME.py in a paper's folder
`studies` writes NAME.csv into the paper's folder; this folder holds what several of them share.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write(script: str, frame: pd.DataFrame, decimals: str = "%.4f") -> None:
    """Write the csv file that bears the script's name."""
    path = Path(script).resolve()
    target = path.parents[1] / f"{path.stem}.csv"
    frame.to_csv(target, index=False, float_format=decimals, lineterminator="\n")
