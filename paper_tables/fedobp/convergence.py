"""Sections V-C and V-E on convergence, weighed at the evaluations of all clients: the first one,
which tells who is fast, and the best, which the paper's tables print. The authors logged both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import our_numbers
from repfl.paper_tables.core.claims.sentences import judge_all
from repfl.paper_tables.core.evidence import Evidence, places
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.fedobp import logs
from repfl.paper_tables.fedobp.ablation import AS_LOGGED, NORMS
from repfl.paper_tables.fedobp.claims import FOLDER
from repfl.paper_tables.fedobp.settings import DATASETS, DRAWN, OURS, PRINTED, key

FIRST, BEST = "first evaluation", "best evaluation"
LOGS = "the authors' logs are four evaluations of one run with momentum 0.7"
UNLOGGED = ", and FedALA has no log"


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
                cells.append({"row": row, "column": at(short, when), "printed": printed} | ours)
    return pd.DataFrame(cells)


def claims(evidence: Evidence, artefact: str, alpha: str) -> tuple[Claim, ...]:
    """Section V-C at one level of heterogeneity."""
    frame = evaluations(
        evidence,
        {name: name for name in DRAWN},
        {short: key(short, alpha) for short in DATASETS},
        f"Dir({alpha})",
    )
    claims = judge_all(evidence, FOLDER, artefact, frame, logged=True)
    return tuple(replace(each, why=f"{each.why}; {LOGS}{UNLOGGED}") for each in claims)


def norm_claims(evidence: Evidence) -> tuple[Claim, ...]:
    """Section V-E on figure 5."""
    rows = {f"{OURS} {norm}": norm for norm in NORMS}
    columns = {short: AS_LOGGED[key(short)] for short in DATASETS}
    frame = evaluations(evidence, rows, columns, "Dir(0.1)")
    claims = judge_all(evidence, FOLDER, "fig5", frame)
    return tuple(replace(each, why=f"{each.why}; {LOGS}") for each in claims)
