"""What FedSelect communicates: personal shares, their two extremes, and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, pick, scores, seed_count
from repfl.paper_tables.core.result import Claim, claim
from repfl.paper_tables.core.statistics.verdict import MARGIN
from repfl.paper_tables.fedselect.settings import ALPHAS, CIFAR10

LARGE_ALPHAS = ("0.50", "0.80")
ROUNDING = 1e-6
DRIFT = (
    "where the two add in another order, in float32; in float64 they agree to twelve digits"
    " (tests/algorithms/test_fedselect.py)"
)


def personal(metrics: Any) -> float:
    """Return the share of maskable parameters that are personal after the last round, mean over
    clients.
    """
    notes = metrics.get("notes", {}) if isinstance(metrics, Mapping) else {}
    value = notes.get("personal")
    return nan if value is None else float(value)


def _by_seed(evidence: Evidence, row: str, point: str | None = None) -> pd.Series:
    done = pick(evidence, row=row, column=CIFAR10, done=True)
    return pd.Series(scores(done, point), index=done["seed"], dtype=float)


def equals_fedavg(evidence: Evidence) -> Claim:
    """Return the claim of section 4.4 that without personal parameters the method is FedAvg; the
    locally trained models are compared seed by seed.
    """
    name, text = "no-limit-is-fedavg", "With α = 0 FedSelect reduces exactly to FedAvg"
    fedavg, gaps = _by_seed(evidence, "FedAvg", "pre_agg"), {}
    for row in ("α = 0", "α = 0, code's rules"):
        both = pd.concat([_by_seed(evidence, row), fedavg], axis=1, join="inner").dropna()
        gaps[row] = float((both.iloc[:, 0] - both.iloc[:, 1]).abs().max()) if len(both) else nan
    exact, code = gaps.values()
    if not isfinite(exact):
        return claim(
            name, text, None, f"not run at the {evidence.scale} scale", evidence.scale, place="4.4"
        )
    share = [
        personal(m)
        for m in pick(evidence, row="α = 0, code's rules", column=CIFAR10, done=True)["metrics"]
    ]
    code_words = (
        f"; by the code's rules {code:.2f} points, with {100 * max(share):.1f} % personal"
        " parameters (README, 1)"
        if share
        else ""
    )
    answer = True if exact <= ROUNDING else False if exact > MARGIN else None
    detail = f"largest gap between equal seeds {exact:.2f} points, {DRIFT}{code_words}"
    return claim(name, text, answer, detail, evidence.scale, place="4.4", any_run=True)


def stops_at_limit(evidence: Evidence, shares: pd.DataFrame) -> Claim:
    """Return the claim of Algorithm 3 that a personal share below α grows, and another does not: it
    ends above α by less than one growth.
    """
    name = "stops-at-limit"
    text = "The personal share stops growing at α, which its last growth may exceed by less than p"
    table = shares.dropna(subset="ours").groupby("row")["ours"].max() / 100
    reached = {a: float(table[f"α = {a}"]) for a in ALPHAS if f"α = {a}" in table}
    if not reached:
        return claim(name, text, None, "no run has ended", evidence.scale, place="Algorithm 3")
    rows = evidence.cells["row"].isin([f"α = {a}" for a in reached])
    rate = float(evidence.cells.loc[rows, "hp.rate"].max())
    bounds = {a: float(a) + rate * (1 - float(a)) for a in reached}
    over = [a for a, share in reached.items() if share > bounds[a] + ROUNDING]
    answer = False if over else True if len(reached) == len(ALPHAS) else None
    words = ", ".join(f"{100 * share:.1f} % at α = {a}" for a, share in reached.items())
    words += f" ({len(ALPHAS) - len(reached)} limits not run)" if len(reached) < len(ALPHAS) else ""
    detail = f"with p = {rate:g} at most {words} (README, 2)"
    return claim(name, text, answer, detail, evidence.scale, place="Algorithm 3", any_run=True)


def cheaper_over_time(evidence: Evidence) -> Claim:
    """Return the claim of section 4.4 that for a large α later rounds send less; masks are
    billed.
    """
    name, text = "cheaper-over-time", "With α = 0.50 and more, communication falls over the rounds"
    parts, holds = [], []
    for alpha in LARGE_ALPHAS:
        first, last = _uplink(evidence, f"α = {alpha}")
        if isfinite(last):
            parts.append(
                f"with α = {alpha} {last / first:.2f} of the first round's bytes in the last"
            )
            holds.append(last < first)
    if not parts:
        return claim(name, text, None, "no run has ended", evidence.scale, place="4.4")
    detail = "; ".join(parts) + " (values and masks, up)"
    seeds = seed_count(
        evidence.cells[evidence.cells["row"].isin([f"α = {a}" for a in LARGE_ALPHAS])]
    )
    return claim(name, text, all(holds), detail, evidence.scale, place="4.4", seeds=seeds)


def _uplink(evidence: Evidence, row: str) -> tuple[float, float]:
    """Return the bytes that clients send in the first and in the last round, values and masks, mean
    over runs.
    """
    done = pick(evidence, row=row, column=CIFAR10, done=True)
    sent = evidence.rounds(list(done["id"]), "traffic/up_values", "traffic/up_codes")
    if sent.empty:
        return nan, nan
    curve = sent.groupby("round")["value"].sum()
    return float(curve.iloc[0]), float(curve.iloc[-1])
