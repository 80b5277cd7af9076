"""Scripts behind single sentences of the papers' pages. A script NAME.py in a paper's folder
`studies` writes NAME.csv into the paper's folder; this folder holds what several of them share.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd


def write(script: str, frame: pd.DataFrame) -> None:
    """Write the csv file that bears the script's name, and print the means over seeds."""
    path = Path(script).resolve()
    target = path.parents[1] / f"{path.stem}.csv"
    frame.to_csv(target, index=False, float_format="%.4f", lineterminator="\n")
    print(frame.pivot_table(index=["equation", "quantity"], columns="round", values="value"))


def curves(script: str, method: str, recipe: Any, seed: int, **hp: Any) -> pd.DataFrame:
    """Run a cell whose method the script registers, and return its curves by name."""
    import repfl

    with TemporaryDirectory() as results:
        run = repfl.run(method, recipe, seed, hp=hp, results=results, plugins=[script])
        return run.curves
