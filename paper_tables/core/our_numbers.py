"""Our side of a number: the results of its cells, and the majority-class baseline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core.evidence import (
    Evidence,
    chosen_text,
    first,
    scores,
    tier_of,
    values_of,
    why_missing,
)
from repfl.paper_tables.core.statistics import intervals
from repfl.paper_tables.core.statistics.intervals import Variance
from repfl.paper_tables.core.statistics.noise import pool
from repfl.paper_tables.core.statistics.seeds import SeedResult, constant_floor, constant_floors


def measure(
    evidence: Evidence, cells: pd.DataFrame, point: str | None = None, rule: str | None = None
) -> dict[str, Any]:
    """Return our side of a table cell: the accuracy of one row and column over all seeds, and its
    floor.
    """
    finished = [status == "done" for status in values_of(cells, "status")]
    done = cells if all(finished) else cells[finished]
    average = first(done, "recipe.evaluation.average", "clients")
    floor = f"floor.{average}"
    accuracies = scores(done, point, rule)
    numbers = gather(cells, evidence.scale, accuracies, floor)
    if cells.empty:
        return numbers
    scored = point or first(cells, "recipe.evaluation.point")
    return numbers | {
        "rule": rule or first(cells, "recipe.evaluation.rule", ""),
        "one_model": bool(first(cells, "one_model", False)) and scored == "post_agg",
        "borrowed": borrowed(evidence, cells),
    }


def borrowed(evidence: Evidence, cells: pd.DataFrame) -> Variance | None:
    """Return the noise of our other cells, for a cell that has one run."""
    one_partition = bool(pd.notna(first(cells, "recipe.partition.seed")))
    return evidence.noise.get(pool(evidence.scale, one_partition=one_partition))


def gather(
    cells: pd.DataFrame, scale: str, values: Sequence[float], floor: str = ""
) -> dict[str, Any]:
    """Return our side of a table cell from the values of its finished cells; `floor` names the
    accuracy of a constant prediction.
    """
    done = cells[[status == "done" for status in values_of(cells, "status")]]
    return _about(cells, done, scale, floor) | _numbers(done, values, floor)


def _about(cells: pd.DataFrame, done: pd.DataFrame, scale: str, floor: str) -> dict[str, Any]:
    """Return what all numbers of some runs share."""
    method = str(first(cells, "method", ""))
    about = {"reason": why_missing(cells, scale), "scale": scale, "method": method}
    if done.empty:  # most numbers have no run, and tables ask for thousands
        return about | {"floor": nan, "tier": "", "runs": (), "chosen": ""}
    return about | {
        "floor": constant_floor(done, floor),
        "tier": tier_of(cells),
        "runs": tuple(values_of(done, "id")),
        "chosen": chosen_text(values_of(done, "chosen", {})),
    }


def _numbers(done: pd.DataFrame, values: Sequence[float], floor: str) -> dict[str, Any]:
    spread = intervals.spread(values)
    return {
        "ours": spread.mean,
        "std": spread.std,
        "seeds": spread.count,
        "low": spread.low,
        "high": spread.high,
        "by_seed": () if done.empty else _by_seed(done, values, floor),
    }


def _by_seed(done: pd.DataFrame, values: Sequence[float], floor: str) -> tuple[SeedResult, ...]:
    """Return every seed's result; empty if values are not one per seed."""
    seeds = values_of(done, "seed")
    if len(values) != len(seeds) or len(set(seeds)) < len(seeds):
        return ()
    runs = zip(seeds, values, constant_floors(done, floor), strict=True)
    return tuple(
        SeedResult(int(seed), float(value), float(baseline))
        for seed, value, baseline in runs
        if isfinite(value)
    )


# -- read off curves -------------------------------------------------------------------------------

Value = Callable[[pd.Series, pd.DataFrame], float]
"""Computes a number from a finished cell and its curves."""


def from_rounds(
    evidence: Evidence, planned: pd.DataFrame, values: Mapping[str, Value], *names: str
) -> dict[str, dict[str, Any]]:
    """Return our side of several table cells whose numbers are read off stored curves of the same
    runs; `names` are those of the curves.
    """
    done = planned[planned["status"] == "done"]
    cells = [cell for _, cell in done.iterrows()]
    rounds = evidence.rounds(list(done["id"]), *names) if cells else planned
    of_cells = [(cell, rounds[rounds["id"] == cell["id"]]) for cell in cells]
    about = _about(planned, done, evidence.scale, "")
    return {
        key: about | _numbers(done, [value(*each) for each in of_cells], "")
        for key, value in values.items()
    }


def per_round(rounds: pd.DataFrame, *names: str) -> pd.Series:
    """Return bytes by round over all clients, summed over some lines of the ledger."""
    matching = rounds[rounds["name"].isin([f"traffic/{name}" for name in names])]
    return matching.groupby("round")["value"].sum()
