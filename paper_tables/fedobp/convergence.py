"""Sections V-C and V-E on convergence, weighed at the evaluations of all clients: the first one,
which tells who is fast, and the best, which the paper's tables print. The authors logged both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import our_numbers
from repfl.paper_tables.core.claims.conditions import Condition, at_least, best, cell, every
from repfl.paper_tables.core.claims.sentences import Sentence, judge_all
from repfl.paper_tables.core.evidence import Evidence, places
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.ablation import AS_LOGGED, NORMS
from repfl.paper_tables.fedobp.settings import DATASETS, DRAWN, ORGANS, OURS, PRINTED, key

FIRST, BEST = "first evaluation", "best evaluation"
LOGS = (
    "the authors' logs are four evaluations of one run with momentum 0.7; the figure's own curves"
    " are not published, and FedALA has no log"
)
UNLOGGED = ("FedALA",)


def at(short: str, when: str) -> str:
    """The column of a data set at an evaluation."""
    return f"{short}, {when}"


def evaluations(
    evidence: Evidence, rows: Mapping[str, str], columns: Mapping[str, str], setting: str
) -> pd.DataFrame:
    """Return the long table of both evaluations: `rows` are the lines by their names in the logs,
    `columns` the recipes by data set.
    """
    logged = logs.curves(setting).groupby(["dataset", "method"])["mean"].agg(["first", "max"])
    planned, no_cells, cells = places(evidence), evidence.cells.iloc[:0], list[dict[str, Any]]()
    for short, column in columns.items():
        for name, row in rows.items():
            cells_here = planned.get((row, column), no_cells)
            for when, pick in ((FIRST, "first"), (BEST, "max")):

                def value(_: pd.Series, rounds: pd.DataFrame, pick: str = pick) -> float:
                    scored = 100 * rounds.sort_values("round")["value"]
                    return (
                        float(scored.agg(pick) if pick == "max" else scored.iloc[0])
                        if len(scored)
                        else nan
                    )

                log_key = (PRINTED[short], name)
                printed = float(logged[pick][log_key]) if log_key in logged.index else nan
                ours = our_numbers.from_rounds(evidence, cells_here, value, "post_agg/pooled")
                cells.append({"row": row, "column": at(short, when), "published": printed} | ours)
    return pd.DataFrame(cells)


def leads(shorts: Sequence[str], whens: Sequence[str], rivals: Sequence[str]) -> Condition:
    """FedOBP above some methods at some evaluations."""
    return best(OURS, rivals, [at(short, when) for short in shorts for when in whens])


BASELINES = [name for name in DRAWN if name != OURS]
LOGGED = [name for name in BASELINES if name not in UNLOGGED]


def most(shorts: Sequence[str], rivals: Sequence[str]) -> Condition:
    """FedOBP above most of some methods at the first evaluation of each data set."""
    return every(
        at_least(
            len(rivals) // 2 + 1,
            (cell(OURS, at(short, FIRST)) > cell(rival, at(short, FIRST)) for rival in rivals),
        )
        for short in shorts
    )


def _led(name: str, text: str, shorts: Sequence[str], *whens: str) -> Sentence:
    return Sentence(
        name,
        text,
        leads(shorts, whens, BASELINES),
        in_print=leads(shorts, whens, LOGGED),
        logs=True,
        remark=LOGS,
    )


AT_01 = (
    _led(
        "highest-on-cifar10",
        "FedOBP achieves the highest accuracy on CIFAR-10 (V-C)",
        *(["cifar10"], BEST),
    ),
    _led(
        "fastest-and-best",
        "FedOBP has both the fastest convergence (highest at the first evaluation) and the best"
        " accuracy on CIFAR-100 and EMNIST (V-C)",
        *(["cifar100", "emnist"], FIRST, BEST),
    ),
    Sentence(
        "faster-than-most",
        "FedOBP converges faster than most baselines on both organ data sets (V-C; higher at the"
        " first evaluation)",
        most(ORGANS, BASELINES),
        in_print=most(ORGANS, LOGGED),
        logs=True,
        remark=LOGS,
    ),
)
AT_05 = (
    _led(
        "best-on-cifar",
        "FedOBP achieves the best accuracy on CIFAR-10 and CIFAR-100 (V-C)",
        *(["cifar10", "cifar100"], BEST),
    ),
    _led(
        "first-and-fastest-on-svhn",
        "FedOBP ranks first on SVHN with the fastest convergence (V-C; highest at the first and at"
        " the best evaluation)",
        *(["svhn"], FIRST, BEST),
    ),
)


def claims(evidence: Evidence, alpha: str) -> tuple[Claim, ...]:
    """Section V-C at one level of heterogeneity."""
    frame = evaluations(
        evidence,
        {name: name for name in DRAWN},
        {short: key(short, alpha) for short in DATASETS},
        f"Dir({alpha})",
    )
    return judge_all(frame, evidence.scale, AT_01 if alpha == "0.1" else AT_05)


LAYER = (
    Sentence(
        "layernorm-slower",
        "NoNorm and GlobalNorm achieve higher accuracy with faster convergence than LayerNorm on"
        " all data sets (V-E)",
        every(
            cell(norm, at(short, when)) > cell(NORMS[1], at(short, when))
            for norm in (NORMS[0], NORMS[2])
            for short in DATASETS
            for when in (FIRST, BEST)
        ),
        remark=LOGS.replace(", and FedALA has no log", ""),
    ),
)


def norm_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Section V-E on figure 5."""
    rows = {f"{OURS} {norm}": norm for norm in NORMS}
    columns = {short: AS_LOGGED[key(short)] for short in DATASETS}
    frame = evaluations(evidence, rows, columns, "Dir(0.1)")
    return judge_all(frame, evidence.scale, LAYER)
