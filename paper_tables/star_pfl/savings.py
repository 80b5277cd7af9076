"""What text and abstract say of Table 3: who is cheapest and fastest, and how much is saved in
all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import isfinite

import pandas as pd

from repfl.paper_tables.core.claims import numbers, wide
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.star_pfl.settings import (
    CLIENTS,
    FEDERATED,
    HALF,
    LOCAL,
    METHODS,
    OURS,
    TASKS,
    sources,
)

PER_CLIENT = "Comm refers to the average communication cost of each client in each round"
LEAST = (
    "Star-PFL has the least communication and local computation cost in each round among FL-based"
    " baselines"
)
FASTER = "Star-PFL converges faster than FedBN and FedAP"
SLOWER = "Star-PFL converges slower than LotteryFL"
SAVED = {
    "comm": ("Star-PFL decreases communication by 36.3 % against five baselines", 36.3),
    "flops": ("Star-PFL decreases computation by 18.3 % against five baselines", 18.3),
}
Check = Callable[[pd.DataFrame], tuple[bool, str]]


def claims(evidence: Evidence, frame: pd.DataFrame) -> tuple[Claim, ...]:
    """Section 4.2 and the abstract."""
    stated = {"comm": "communication_reduction", "flops": "computation_reduction"}
    return (
        _per_client_claim(frame),
        _on_both_sides(frame, LEAST, _least),
        _on_both_sides(frame, FASTER, _faster, quantity=True),
        _on_both_sides(frame, SLOWER, _slower, quantity=True),
        *(
            replace(_saving(frame, quantity), sources=sources(evidence, metric))
            for quantity, metric in stated.items()
        ),
    )


def _on_both_sides(
    frame: pd.DataFrame, text: str, check: Check, *, quantity: bool = False
) -> Claim:
    """A sentence held against the printed numbers and ours; one on rounds can only be met in runs
    of full length.
    """
    in_print, said = check(wide(frame, "published"))
    try:
        holds, found = check(wide(frame[frame["ours"].notna()], "ours"))
    except KeyError:
        return Claim(text, None, f"printed: {said}; ours: numbers are missing", in_print)
    short = quantity and set(frame["scale"]) != {"paper"}
    return Claim(text, None if short else holds, f"printed: {said}; ours: {found}", in_print)


def _per_client_claim(frame: pd.DataFrame) -> Claim:
    """Whether the printed number is one client's."""
    ours, printed = (
        _at(wide(frame, side), "FedAvg", "axial/comm") for side in ("ours", "published")
    )
    if not isfinite(ours):
        return Claim(PER_CLIENT, None, "FedAvg's upload is missing")
    one = ours / CLIENTS
    detail = (
        f"one client of FedAvg uploads {one:.3f} MiB, all {CLIENTS} together {ours:.3f}; printed"
        f" {printed:.3f}"
    )
    return Claim(PER_CLIENT, abs(one - printed) <= HALF, detail)


def _at(table: pd.DataFrame, row: str, column: str) -> float:
    return float(numbers(table[[column]], row)[0])


def _least(table: pd.DataFrame) -> tuple[bool, str]:
    columns = [f"{task}/{name}" for task in TASKS for name in ("comm", "flops")]
    winners = [str(table.loc[list(FEDERATED), column].idxmin()) for column in columns]
    told = (
        f"{column.replace('/', ' ')} {name}" for column, name in zip(columns, winners, strict=True)
    )
    return set(winners) == {OURS}, "least: " + ", ".join(told)


def _faster(table: pd.DataFrame) -> tuple[bool, str]:
    return _rounds(table, ("FedBN", "FedAP"), lambda own, other: own < other)


def _slower(table: pd.DataFrame) -> tuple[bool, str]:
    return _rounds(table, ("LotteryFL",), lambda own, other: own > other)


def _rounds(
    table: pd.DataFrame, others: tuple[str, ...], holds: Callable[[float, float], bool]
) -> tuple[bool, str]:
    values = {
        name: [_at(table, name, f"{task}/rounds") for task in TASKS] for name in (OURS, *others)
    }
    good = all(
        holds(own, other)
        for name in others
        for own, other in zip(values[OURS], values[name], strict=True)
    )
    told = "; ".join(
        f"{name} " + " and ".join(f"{v:.0f}" for v in found) for name, found in values.items()
    )
    return good, f"rounds on {' and '.join(TASKS.values())}: {told}"


def _saving(frame: pd.DataFrame, quantity: str) -> Claim:
    """The abstract's savings: per task against the mean over five baselines of cost per round times
    rounds, Local's upload counting 0.
    """
    text, bar = SAVED[quantity]
    in_print, ours = (_mean_saving(wide(frame, side), quantity) for side in ("published", "ours"))
    detail = f"printed: {in_print:.1f} %; ours: " + (
        f"{ours:.1f} %" if isfinite(ours) else "numbers are missing"
    )
    known = isfinite(ours) and set(frame["scale"]) == {"paper"}
    return Claim(
        text, abs(ours - bar) <= 3.0 if known else None, detail, abs(in_print - bar) <= 0.1
    )


def total_costs(table: pd.DataFrame, task: str, quantity: str) -> pd.Series:
    """Cost per round times rounds of every method."""
    per_round = table[f"{task}/{quantity}"].copy()
    if quantity == "comm":
        per_round[LOCAL] = 0.0
    return (per_round * table[f"{task}/rounds"]).reindex(METHODS)


def _mean_saving(table: pd.DataFrame, quantity: str) -> float:
    costs = [total_costs(table, task, quantity) for task in TASKS]
    return float(
        sum(100 * (1 - own[OURS] / own[list(METHODS[:-1])].mean(skipna=False)) for own in costs)
        / len(costs)
    )


def totals(frame: pd.DataFrame) -> tuple[str, ...]:
    """What the abstract's average hides."""
    told = []
    for side in ("published", "ours"):
        own = {name: total_costs(wide(frame, side), task, "comm") for task, name in TASKS.items()}
        if all(isfinite(c[OURS]) and isfinite(c["LotteryFL"]) for c in own.values()):
            told.append(
                f"{side}: "
                + ", ".join(
                    f"{name} {c[OURS]:.0f} against {c['LotteryFL']:.0f} MiB"
                    for name, c in own.items()
                )
            )
    return (
        (f"Total upload until convergence, Star-PFL against LotteryFL alone: {'; '.join(told)}.",)
        if told
        else ()
    )
