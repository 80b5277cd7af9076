"""Claims of text and abstract on Table 3: which method is cheapest and fastest, and the total
savings.
"""

from __future__ import annotations

from math import isfinite

import pandas as pd

from repfl.paper_tables.core.claims.sentences import judge_all, wide
from repfl.paper_tables.core.evidence import Evidence, seed_count
from repfl.paper_tables.core.published import select, stated
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.star_pfl.settings import (
    BASELINES,
    CLIENTS,
    FOLDER,
    HALF,
    LOCAL,
    OURS,
    TASKS,
)

PER_CLIENT = "Comm refers to the average communication cost of each client in each round"
SAVED = {
    "comm": ("communication", "communication_reduction"),
    "flops": ("computation", "computation_reduction"),
}
WITHIN, PRINTED_SLACK = 3.0, 0.1
"""Percentage points within which a stated saving is met, of ours and in print."""


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Return claims of section 4.2 and the abstract. Costs per round depend on what training
    freezes, so short runs say nothing.
    """
    return (
        _per_client_claim(frame, evidence.scale),
        *judge_all(evidence, FOLDER, "table3", frame),
        *(_saving(evidence, frame, quantity) for quantity in SAVED),
    )


def _per_client_claim(frame: pd.DataFrame, scale: str) -> Claim:
    """Return the claim that the printed number is one client's."""
    ours, printed = (
        float(wide(frame, side)["axial/comm"]["FedAvg"]) for side in ("ours", "printed")
    )
    one = ours / CLIENTS
    answer = abs(one - printed) <= HALF if isfinite(ours) else None
    detail = (
        f"one client of FedAvg uploads {one:.3f} MiB, all {CLIENTS} together {ours:.3f}; printed"
        f" {printed:.3f}"
    )
    missing = "FedAvg's upload is missing"
    return claim(
        "comm-is-per-client",
        PER_CLIENT,
        answer,
        missing if answer is None else detail,
        scale,
        place="4.1",
        exact=True,
    )


def _saving(evidence: Evidence, frame: pd.DataFrame, quantity: str) -> Claim:
    """Return the claim on the abstract's savings: cost per round times rounds of each task,
    compared with the mean over five baselines; Local's upload counts 0.
    """
    what, metric = SAVED[quantity]
    source = select(evidence.published, table="text Abstract", metric=metric)
    bar = stated(source)
    in_print, ours = (_mean_saving(wide(frame, side), quantity) for side in ("printed", "ours"))
    our_words = f"{ours:.1f} %" if isfinite(ours) else "not run yet"
    return claim(
        metric.replace("_", "-"),
        f"Star-PFL decreases {what} by {bar:g} % against five baselines",
        abs(ours - bar) <= WITHIN if isfinite(ours) else None,
        f"ours: {our_words}; reported: {in_print:.1f} %",
        evidence.scale,
        place="Abstract",
        printed=abs(in_print - bar) <= PRINTED_SLACK,
        seeds=seed_count(evidence.cells),
        sources=tuple(source["source"]),
    )


def total_costs(table: pd.DataFrame, task: str, quantity: str) -> pd.Series:
    """Return cost per round times rounds of every method."""
    per_round = table[f"{task}/{quantity}"].copy()
    if quantity == "comm":
        per_round[LOCAL] = 0.0
    return (per_round * table[f"{task}/rounds"]).reindex([*BASELINES, OURS])


def _mean_saving(table: pd.DataFrame, quantity: str) -> float:
    costs = [total_costs(table, task, quantity) for task in TASKS]
    return float(
        sum(100 * (1 - own[OURS] / own[list(BASELINES)].mean(skipna=False)) for own in costs)
        / len(costs)
    )


def totals(frame: pd.DataFrame, scale: str) -> tuple[str, ...]:
    """Return a note on what the abstract's average hides; reduced runs end before they converge."""
    sides = []
    for side in ("printed", "ours") if scale == "paper" else ("printed",):
        costs = {name: total_costs(wide(frame, side), task, "comm") for task, name in TASKS.items()}
        if all(isfinite(cost[OURS]) and isfinite(cost["LotteryFL"]) for cost in costs.values()):
            sides.append(
                f"{side}: "
                + ", ".join(
                    f"{name} {cost[OURS]:.0f} against {cost['LotteryFL']:.0f} MiB"
                    for name, cost in costs.items()
                )
            )
    return (
        (f"Total upload until convergence, Star-PFL against LotteryFL alone: {'; '.join(sides)}.",)
        if sides
        else ()
    )
