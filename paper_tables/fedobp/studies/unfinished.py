"""The first rounds of an unfinished run, beside the authors' log of the same rounds.

python paper_tables/fedobp/studies/unfinished.py CHECKPOINT LOG COMMIT    # writes unfinished.csv

CHECKPOINT is the file below `.running` of a results folder that holds the cell "Local-Only,
momentum 0.7, 60 rounds" on MNIST at Dir(0.5), seed 42; COMMIT is that of the code that ran. LOG is
`metrics.csv` of the same setting in uglyghost/FedOBP_results at f64b10a,
`results/accuracy/mnist4datasets/alpha=0.5/local/mnist`. It is no finished run, so it is no
committed one and decides nothing; it shows how closely ours follows the log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import safe_open

from repfl.paper_tables.core import studies

FOLDER = Path(__file__).resolve().parents[1]
COLUMN, METHOD, POINT = "mnist-dir0.5", "local", "start/pooled"
FIRST = 15
"""First round of the comparison."""


def stored(checkpoint: Path) -> pd.Series:
    """Return a checkpoint's accuracy of a round's participants before they train, in percent."""
    with safe_open(checkpoint, "np") as file:
        names = bytes(file.get_tensor("names").astype(np.uint8)).decode().split("\n")
        rows = pd.DataFrame(file.get_tensor("rows"), columns=["round", "name", "value"])
    own = rows[rows["name"] == names.index(POINT)]
    return pd.Series(100 * own["value"].to_numpy(), index=own["round"].astype(int))


def without_momentum() -> pd.Series:
    """Return the same curve of the committed full run of Table IV, which has no momentum."""
    for line in (FOLDER / "measured" / "paper.jsonl").read_text("utf-8").splitlines():
        run = json.loads(line)
        cell = run["cell"]
        if (run["column"], cell["method"], cell["seed"]) == (COLUMN, METHOD, 42):
            curve = run["curves"][POINT]
            return pd.Series(100 * np.array(curve["values"]), index=curve["rounds"])
    raise LookupError("no committed run of Local-Only on MNIST at Dir(0.5)")


def main(checkpoint: Path, log: Path, commit: str) -> None:
    """Write the curves, and print how far ours lie from the log."""
    rounds = pd.read_csv(log)
    logged = pd.Series(rounds["accuracy_test_before"].to_numpy(), index=rounds["epoch"] + 1)
    curves = {"momentum 0.7": stored(checkpoint), "momentum 0": without_momentum()}
    frame = pd.DataFrame(curves | {"log": logged}).loc[: curves["momentum 0.7"].index.max()]
    frame = frame.round(2).rename_axis("round").reset_index().assign(commit=commit)
    studies.write(__file__, frame, "%.6g")
    late = frame[frame["round"] >= FIRST]
    for name in curves:
        gaps = late[name] - late["log"]
        rms = float((gaps**2).mean() ** 0.5)
        print(f"rounds {FIRST} to {late['round'].max()}, {name}: {gaps.mean():+.2f}, rms {rms:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
