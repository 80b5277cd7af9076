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

from repfl.paper_tables.core import forms, result
from repfl.paper_tables.core.claims.sentences import all_met, in_words
from repfl.paper_tables.core.drawing import plots
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.number_text import signed
from repfl.paper_tables.core.result import Claim, Figure
from repfl.paper_tables.fedobp.settings import DATASETS, FOLDER, PAPER, PRINTED

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
NARROW = 0.10
"""Points of lead up to which a column is called narrow."""
WIDTH = 5.0
"""Of the figure, in inches."""
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


def finetuned_claim(scale: str) -> Claim:
    """Return the check of ours on the authors' logs, which no run decides."""
    pairs = finetuned()
    numbers = {str(column): float(lead) for column, lead in pairs["lead"].items()}
    return result.claim(
        "finetuned-fedavg-ahead",
        "In the authors' logs FedAvg after five epochs of fine-tuning ends above FedOBP, before and"
        " after the same fine-tuning, in most columns without organ data",
        all_met(numbers, lambda lead: lead > 0, MOST),
        "points of lead at round 400 (one run a column, momentum 0.7):"
        f" {in_words(numbers, signed)}; not repeated by a run of ours",
        scale,
        place="the authors' logs",
        exact=True,
        ours=True,
    )


def finetuned_figure(evidence: Evidence) -> Figure:
    """Draw the twelve pairs: FedAvg after fine-tuning minus the better FedOBP, and both numbers."""
    pairs = finetuned().sort_values("lead", ascending=False)
    numbers = zip(pairs.index, pairs[TUNED], pairs[[OURS, OURS_TUNED]].max(axis=1), strict=True)
    rows = [f"{column}: {tuned:.2f} and {own:.2f}" for column, tuned, own in numbers]
    above, lead = pairs["lead"] > 0, pairs["lead"].to_numpy()
    data = pairs.reset_index(names="column").assign(
        panel="lead", row=rows, value=lead, filled=above.to_numpy()
    )
    narrow = int(pairs.loc[above, "lead"].le(NARROW).sum())
    what = (
        "A row per column of the authors' logs: FedAvg after five epochs of fine-tuning, FedOBP"
        " before or after the same fine-tuning (the better of the two), and the difference, at"
        " round 400. Filled: FedAvg is above. The organ data are left out, which may measure no"
        " learning. No run of ours repeats the pairs. They are of logs, not of the tables: for"
        " FedOBP on CIFAR-100 at Dir(0.1) Table III reports more than any number of this pair."
    )
    return forms.figure(
        evidence,
        (PAPER, "fig-finetuned"),
        "FedAvg + FT beside FedOBP, in the authors' logs",
        what,
        lambda new_canvas: plots.dot_panels(
            lambda _, height: new_canvas(WIDTH, height),
            data,
            rows,
            {"lead": "FedAvg + FT minus\nthe better FedOBP, points"},
            marks={"filled": "FedAvg + FT is above", "hollow": "FedOBP is above"},
        ),
        data,
        claims=(finetuned_claim(evidence.scale),),
        caption=f"{what} One run a column, momentum 0.7.",
        stamp="FedOBP_results at f64b10a: one run a column, momentum 0.7",
        findings=(
            f"In the authors' logs fine-tuned FedAvg ends above FedOBP in {above.sum()} of"
            f" {len(pairs)} columns, in {narrow} of them by at most {NARROW:.2f} points.",
        ),
    )
