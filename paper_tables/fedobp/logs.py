"""The authors' logged accuracies, and FedAvg after fine-tuning beside FedOBP in them.

`author_logs.csv` has all finished runs of 400 rounds in uglyghost/FedOBP_results at f64b10a
(`results/accuracy`, `results/ablation`, `bak`): momentum 0.7, seed 42, accuracy pooled over all
clients, before and, in all but 48 runs for Table V, after five epochs of fine-tuning.
`studies/print_and_logs.py` prints what the page says of them.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pandas as pd

from repfl.paper_tables.core import result
from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedobp.settings import DATASETS, FOLDER, PRINTED

KEYS = ["dataset", "setting", "method"]
EVALUATIONS = [f"round_{r}" for r in (100, 200, 300, 400)]


def logged() -> pd.DataFrame:
    """Return every logged run, with the maximum over its four evaluations, which is what the code
    reports.
    """
    frame = pd.read_csv(FOLDER / "author_logs.csv")
    started = frame["run"].str.rsplit("/", n=1).str[1]
    return frame.assign(best=frame[EVALUATIONS].max(axis=1), started=started)


@cache
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
    lines = []
    for run in last_runs().to_dict("records"):
        points = [(int(name.removeprefix("round_")), run[name]) for name in EVALUATIONS]
        lines.append(
            {key: run[key] for key in KEYS} | {"points": [p for p in points if p[1] == p[1]]}
        )
    return lines


# -- FedAvg after fine-tuning beside FedOBP --------------------------------------------------------

TUNED, OURS, OURS_TUNED = "FedAvg, fine-tuned", "FedOBP", "FedOBP, fine-tuned"
MOST = 0.75
"""Share of the columns in which the sentence must be true."""


def finetuned() -> pd.DataFrame:
    """Return the logged accuracies at round 400 in the twelve columns without organ data, and
    FedAvg's lead over the better FedOBP.
    """
    runs = last_runs().set_index(["dataset", "setting"])
    fedavg, fedobp = (runs[runs["method"] == name] for name in ("FedAvg", "FedOBP"))
    pairs = pd.DataFrame(
        {
            TUNED: fedavg["finetuned_400"],
            OURS: fedobp["round_400"],
            OURS_TUNED: fedobp["finetuned_400"],
        }
    ).drop(["MEDMNISTA", "MEDMNISTC"])
    names = {printed: DATASETS[short] for short, printed in PRINTED.items()}
    pairs.index = pd.Index([f"{names[name]}, {setting}" for name, setting in pairs.index])
    return pairs.assign(lead=(pairs[TUNED] - pairs[[OURS, OURS_TUNED]].max(axis=1)).round(2))


def finetuned_claim(scale: str, pairs: pd.DataFrame | None = None) -> Claim:
    """Return the check of ours on the authors' logs, which no run decides."""
    pairs = finetuned() if pairs is None else pairs
    numbers = {str(column): float(lead) for column, lead in pairs["lead"].items()}
    return result.claim(
        "finetuned-fedavg-ahead",
        "In the authors' logs FedAvg after five epochs of fine-tuning ends above FedOBP, before and"
        " after the same fine-tuning, in most columns without organ data",
        all_met(numbers, lambda lead: lead > 0, MOST),
        "points of lead at round 400 (one run a column, momentum 0.7):"
        f" {in_words(numbers, '{:+.2f}')}; not repeated by a run of ours",
        scale,
        place="the authors' logs",
        exact=True,
        ours=True,
    )
