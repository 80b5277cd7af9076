"""What Tables III and IV print beside the authors' logs, their curves, and our full runs.

python paper_tables/fedobp/studies/print_and_logs.py    # prints what the page says of momentum

A reported mean and deviation that are those of the log beside three equal values give these three:
(4 * mean - log) / 3.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.drawn_curves import drawn
from repfl.paper_tables.fedobp.settings import DATASETS, PRINTED, key

FOLDER = Path(__file__).resolve().parents[1]
METHODS = {
    "local": "Local-Only", "fedavg": "FedAvg", "fedper": "FedPer", "fedrep": "FedRep",
    "lg-fedavg": "LG-FedAvg", "floco": "FLOCO", "flute": "FLUTE", "fedobp": "FedOBP",
}  # fmt: skip
CELL = ["dataset", "setting", "method"]
LATE = 380
"""The last twenty rounds of a curve come after it."""


def cells() -> pd.DataFrame:
    """Return the reported cells with a log, and the three equal `others` beside it."""
    frame = logs.beside_print("III", "IV")
    return frame.assign(
        others=(4 * frame["mean"] - frame["best"]) / 3, three_equal=logs.lies_at(frame)
    )


def full_runs() -> pd.Series:
    """Return the mean accuracy of our committed full runs, which have no momentum, by cell."""
    columns = {
        key(short, alpha): (PRINTED[short], f"Dir({alpha})")
        for short in DATASETS
        for alpha in ("0.1", "0.5")
    }
    values: dict[tuple[str, str, str], list[float]] = {}
    for line in (FOLDER / "measured" / "paper.jsonl").read_text("utf-8").splitlines():
        run = json.loads(line)
        place, method = columns.get(run["column"]), METHODS.get(run["cell"]["method"])
        if place and method:
            values.setdefault((*place, method), []).append(100 * run["metrics"]["value"])
    return pd.Series({cell: sum(each) / len(each) for cell, each in values.items()})


def curve_ends(frame: pd.DataFrame) -> pd.Series:
    """Return the mean of a drawn curve's last twenty rounds, by row of `frame`."""
    ends = []
    for row in frame.to_dict("records"):
        figure = "fig2" if row["setting"] == "Dir(0.1)" else "fig3"
        curve = drawn(figure, row["dataset"], row["method"])
        ends.append(curve[curve.index > LATE].mean())
    return pd.Series(ends, index=frame.index)


def main() -> None:
    """Print the counts."""
    frame = cells()
    clear = frame[(frame["std"] >= 0.1) & frame["three_equal"]]
    below = (clear["others"] < clear["best"]).sum()
    lowest = (clear["others"] < clear[logs.EVALUATIONS].min(axis=1)).sum()
    print(f"{len(clear)} cells are the log beside three equal values; these are below the log in"
          f" {below}, below all its evaluations in {lowest}")  # fmt: skip
    ends = curve_ends(frame)
    drawn_cells = frame[ends.notna()]
    for name, values in (("best of the log", frame["best"]), ("end of the curve", ends)):
        gaps = (values - frame["mean"]).abs()[drawn_cells.index]
        print(f"{name}: {gaps.median():.2f} points from print in the median of {len(gaps)} cells")
    ours = full_runs().rename("ours").rename_axis(CELL).reset_index()
    both = frame[frame["three_equal"]].merge(ours, on=CELL)
    both = both.assign(to_others=(both["ours"] - both["others"]).abs(),
                       to_log=(both["ours"] - both["best"]).abs())  # fmt: skip
    for is_mnist, group in both.groupby(both["dataset"] == "MNIST"):
        nearer = (group["to_others"] < group["to_log"]).sum()
        where = "MNIST" if is_mnist else "other data"
        print(f"{where}: ours is nearer to the three values in {nearer} of {len(group)};"
              f" {group['to_others'].mean():.2f} from them,"
              f" {group['to_log'].mean():.2f} from the log")  # fmt: skip


if __name__ == "__main__":
    main()
