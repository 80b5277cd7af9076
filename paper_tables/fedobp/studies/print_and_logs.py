"""What the page says of the authors' logs: beside Tables III to V, their curves, and our full runs.

python paper_tables/fedobp/studies/print_and_logs.py

A reported mean and deviation that are those of the log beside three equal values give these three:
(4 * mean - log) / 3.
"""

from __future__ import annotations

import json
from math import sqrt

import pandas as pd

from repfl.paper_tables.core import published
from repfl.paper_tables.fedobp.curves import drawn
from repfl.paper_tables.fedobp.logs import EVALUATIONS, KEYS, finetuned, last_runs, logged
from repfl.paper_tables.fedobp.settings import DATASETS, FOLDER, PRINTED, key

METHODS = {
    "local": "Local-Only", "fedavg": "FedAvg", "fedper": "FedPer", "fedrep": "FedRep",
    "lg-fedavg": "LG-FedAvg", "floco": "FLOCO", "flute": "FLUTE", "fedobp": "FedOBP",
}  # fmt: skip
LATE = 380
"""The last twenty rounds of a curve come after it."""
COMMON = ("Local-Only", "FedAvg", "FedPer", "APFL", "LG-FedAvg", "FedRep", "pFedFDA", "FLOCO")
"""Baselines logged in every column as the tables have them. FLUTE's logs are of swapped heads in
half of the columns, FedDPA's of another variant (README, 17 and 18).
"""
PAIRS = ("Local-Only", "FedAvg", "FedPer", "FedRep", "FLOCO", "LG-FedAvg", "pFedFDA", "FLUTE")
"""The baselines with logs of two workers and of one on MNIST at Dir(0.1)."""
LAST_DIGIT = 0.005


def beside_print(*numbers: str) -> pd.DataFrame:
    """The printed cells of some tables that have a log: mean, std, and the log's best."""
    rows = published.read_published(FOLDER / "published").frame
    rows = rows[rows["table"].isin(numbers)]
    printed = rows[["dataset", "method"]].assign(
        setting=rows["setting"].str.extract(r"(Dir\(0\.\d\))")[0],
        mean=rows["value"],
        std=rows["std"],
    )
    return printed.merge(last_runs(), on=KEYS)


def differences() -> pd.DataFrame:
    """Printed minus logged for the common baselines in the twelve columns without organ data:
    methods against columns.
    """
    cells = beside_print("III", "IV")
    cells = cells[cells["method"].isin(COMMON) & ~cells["dataset"].str.startswith("MEDMNIST")]
    cells = cells.assign(column=cells["dataset"] + " " + cells["setting"])
    cells = cells.assign(difference=(cells["mean"] - cells["best"]).round(2))
    return cells.pivot_table(index="method", columns="column", values="difference").loc[
        list(COMMON)
    ]


def lies_at(cells: pd.DataFrame, distance: float = sqrt(3)) -> pd.Series:
    """Whether the log lies this many printed deviations from the printed mean, as far as two
    decimals can tell.

    None of four values lies farther than √3 deviations (over n) from their mean, and only one
    beside three equal ones lies that far.
    """
    slack = LAST_DIGIT * (1 + 1 / distance)
    return ((cells["best"] - cells["mean"]).abs() / distance - cells["std"]).abs() <= slack


def informative() -> pd.DataFrame:
    """Cells of Tables III and IV whose printed deviation is large enough to tell distances
    apart.
    """
    cells = beside_print("III", "IV")
    return cells[cells["std"] >= 0.1]


def workers() -> pd.DataFrame:
    """Best logged accuracy on MNIST at Dir(0.1) by mode, the one setting in which eight baselines
    were logged with two workers and in serial.
    """
    runs = logged()
    runs = runs[
        (runs["dataset"] == "MNIST") & (runs["setting"] == "Dir(0.1)") & runs["method"].isin(PAIRS)
    ]
    return runs.pivot_table(index="method", columns="mode", values="best").loc[list(PAIRS)]


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


def print_logs() -> None:
    """Print what the logs say of Tables III to V."""
    gaps = differences()
    below, equal = int((gaps < 0).to_numpy().sum()), int((gaps == 0).to_numpy().sum())
    print(
        f"Printed minus logged (momentum 0.7), points: {below} of {gaps.size} below zero, {equal}"
        f" equal\n{gaps.to_string()}\n"
    )
    cells = informative()
    for distance in (1.25, 1.5, sqrt(3), 2.0, 2.25):
        print(
            f"{int(lies_at(cells, distance).sum())} of {len(cells)} logs lie {distance:.2f} printed"
            " deviations from the printed mean"
        )
    ends = cells[lies_at(cells)]
    ends = ends.assign(others=(4 * ends["mean"] - ends["best"]) / 3)[
        [*KEYS, "mean", "std", "best", "others"]
    ]
    print(
        "\nWhat three equal runs beside the log would"
        f" have\n{ends.round(2).to_string(index=False)}\n"
    )
    print(f"MNIST, Dir(0.1), two workers and one\n{workers().to_string()}\n")
    tuned = finetuned()
    above = int((tuned["lead"] > 0).sum())
    print(
        "Round 400: FedAvg after five epochs of fine-tuning is above FedOBP, before and after them,"
        f" in {above} of {len(tuned)} columns\n{tuned.to_string()}\n"
    )
    ablation = beside_print("V")
    same = int((ablation["mean"] == ablation["best"]).sum())
    print(f"Table V: {same} of {len(ablation)} cells are the maxima of the logs of that name")


def print_momentum() -> None:
    """Print where printed values, logs, drawn curves and our full runs lie."""
    frame = beside_print("III", "IV")
    others = (4 * frame["mean"] - frame["best"]) / 3
    frame = frame.assign(others=others, three_equal=lies_at(frame))
    clear = frame[(frame["std"] >= 0.1) & frame["three_equal"]]
    below = (clear["others"] < clear["best"]).sum()
    lowest = (clear["others"] < clear[EVALUATIONS].min(axis=1)).sum()
    print(f"{len(clear)} cells are the log beside three equal values; these are below the log in"
          f" {below}, below all its evaluations in {lowest}")  # fmt: skip
    ends = curve_ends(frame)
    drawn_cells = frame[ends.notna()]
    for name, values in (("best of the log", frame["best"]), ("end of the curve", ends)):
        gaps = (values - frame["mean"]).abs()[drawn_cells.index]
        print(f"{name}: {gaps.median():.2f} points from print in the median of {len(gaps)} cells")
    ours = full_runs().rename("ours").rename_axis(KEYS).reset_index()
    both = frame[frame["three_equal"]].merge(ours, on=KEYS)
    both = both.assign(to_others=(both["ours"] - both["others"]).abs(),
                       to_log=(both["ours"] - both["best"]).abs())  # fmt: skip
    for is_mnist, group in both.groupby(both["dataset"] == "MNIST"):
        nearer = (group["to_others"] < group["to_log"]).sum()
        where = "MNIST" if is_mnist else "other data"
        print(f"{where}: ours is nearer to the three values in {nearer} of {len(group)};"
              f" {group['to_others'].mean():.2f} from them,"
              f" {group['to_log'].mean():.2f} from the log")  # fmt: skip


if __name__ == "__main__":
    print_logs()
    print_momentum()
