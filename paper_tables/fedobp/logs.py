"""The authors' logged accuracies beside Tables III to V: what they say of momentum, of workers and
of printed deviations.

`author_logs.csv` has all finished runs of 400 rounds in uglyghost/FedOBP_results at f64b10a
(`results/accuracy`, `results/ablation`, `bak`): momentum 0.7, seed 42, accuracy pooled over all
clients, before and, in all but 48 runs for Table V, after five epochs of fine-tuning. `python -m
repfl.paper_tables.fedobp.logs` prints what the page says of them.
"""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.paper_tables.core import published

FOLDER = Path(__file__).parent
KEYS = ["dataset", "setting", "method"]
EVALUATIONS = [f"round_{r}" for r in (100, 200, 300, 400)]
FINETUNED = [f"finetuned_{r}" for r in (100, 200, 300, 400)]
COMMON = ("Local-Only", "FedAvg", "FedPer", "APFL", "LG-FedAvg", "FedRep", "pFedFDA", "FLOCO")
"""Baselines logged in every column as the tables have them. FLUTE's logs are of swapped heads in
half of the columns, FedDPA's of another variant (README, 17 and 18).
"""
PAIRS = ("Local-Only", "FedAvg", "FedPer", "FedRep", "FLOCO", "LG-FedAvg", "FLUTE")
"""Baselines with logs of two workers and of one on MNIST at Dir(0.1)."""
LAST_DIGIT = 0.005


def logged() -> pd.DataFrame:
    """Every logged run, with the maximum over its four evaluations, which is what the code
    reports.
    """
    frame = pd.read_csv(FOLDER / "author_logs.csv")
    started = frame["run"].str.rsplit("/", n=1).str[1]
    return frame.assign(best=frame[EVALUATIONS].max(axis=1), started=started)


def last_runs() -> pd.DataFrame:
    """Return the last run of every setting; some were started several times."""
    return logged().sort_values("started").groupby(KEYS, as_index=False).last()


def curves(setting: str) -> pd.DataFrame:
    """Return the logged evaluations of all clients: dataset, method, round, accuracy."""
    runs = last_runs()
    runs = runs[runs["setting"] == setting]
    long = runs.melt(["dataset", "method"], EVALUATIONS, var_name="round", value_name="mean")
    rounds = long["round"].str.removeprefix("round_").astype(int)
    return long.assign(round=rounds).dropna(subset="mean")


def runs() -> list[dict[str, Any]]:
    """Return the last logged run of every setting, with its rounds and accuracies."""
    result = []
    for run in last_runs().to_dict("records"):
        points = [(int(name.removeprefix("round_")), run[name]) for name in EVALUATIONS]
        result.append(
            {key: run[key] for key in KEYS} | {"points": [p for p in points if p[1] == p[1]]}
        )
    return result


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
    """Best logged accuracy on MNIST at Dir(0.1) by mode, the one setting that was logged with two
    workers and in serial.
    """
    runs = logged()
    runs = runs[
        (runs["dataset"] == "MNIST") & (runs["setting"] == "Dir(0.1)") & runs["method"].isin(PAIRS)
    ]
    return runs.pivot_table(index="method", columns="mode", values="best").loc[list(PAIRS)]


def finetuned() -> pd.DataFrame:
    """Return accuracy at round 400 of FedAvg after fine-tuning and of FedOBP before and after it,
    in the twelve columns without organ data.
    """
    runs = last_runs()[lambda frame: ~frame["dataset"].str.startswith("MEDMNIST")]
    last = runs.set_index(["dataset", "setting"])[["method", EVALUATIONS[-1], FINETUNED[-1]]]
    fedavg, fedobp = (last[last["method"] == name] for name in ("FedAvg", "FedOBP"))
    return pd.DataFrame(
        {
            "FedAvg, fine-tuned": fedavg[FINETUNED[-1]],
            "FedOBP": fedobp[EVALUATIONS[-1]],
            "FedOBP, fine-tuned": fedobp[FINETUNED[-1]],
        }
    )


def main() -> None:
    """Print what the page quotes."""
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
    above = tuned["FedAvg, fine-tuned"] > tuned.drop(columns="FedAvg, fine-tuned").max(axis=1)
    print(
        "Round 400: FedAvg after five epochs of fine-tuning is above FedOBP, before and after them,"
        f" in {above.sum()} of {len(tuned)} columns\n{tuned.to_string()}\n"
    )
    ablation = beside_print("V")
    same = int((ablation["mean"] == ablation["best"]).sum())
    print(f"Table V: {same} of {len(ablation)} cells are the maxima of the logs of that name")


if __name__ == "__main__":
    main()
