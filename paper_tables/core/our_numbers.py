"""Our side of a number: what the runs of its cells came to, beside what a constant reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isfinite
from typing import Any

import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, first, listed, scores, tier, why_missing
from repfl.paper_tables.core.statistics import intervals
from repfl.paper_tables.core.statistics.intervals import Prior
from repfl.paper_tables.core.statistics.noise import pool
from repfl.paper_tables.core.statistics.seeds import OfSeed, constant_floor, constant_floors

Clients = Callable[[Sequence[str]], pd.DataFrame]


def measure(
    evidence: Evidence, cells: pd.DataFrame, point: str | None = None, rule: str | None = None
) -> dict[str, Any]:
    """Our side of a table cell: the accuracy of one row and column, all seeds in one number, beside
    its floor.
    """
    finished = [status == "done" for status in listed(cells, "status")]
    done = cells if all(finished) else cells[finished]
    model = expected(evidence, cells)
    average = first(done, "recipe.evaluation.average", "clients")
    floor = f"floor.{average}"
    found = gather(cells, evidence.scale, scores(done, point, rule), model, floor, evidence.clients)
    if cells.empty:
        return found
    scored = point or first(cells, "recipe.evaluation.point")
    return found | {
        "rule": rule or first(cells, "recipe.evaluation.rule", ""),
        "one_model": bool(first(cells, "one_model", False)) and scored == "post_agg",
        "expected": model,
    }


def expected(evidence: Evidence, cells: pd.DataFrame) -> Prior | None:
    """What the noise model expects of the runs of one cell."""
    if cells.empty:
        return None
    where = pool(
        evidence.scale, one_partition=bool(pd.notna(first(cells, "recipe.partition.seed")))
    )
    paper = str(first(cells, "artefact")).split("/")[0]
    return evidence.noise.expected(
        where, f"{paper}/{first(cells, 'column')}", str(first(cells, "method"))
    )


def gather(
    cells: pd.DataFrame,
    scale: str,
    values: Sequence[float],
    expected: Prior | None = None,
    floor: str = "",
    clients: Clients | None = None,
) -> dict[str, Any]:
    """Our side of a table cell, from whatever was read off its finished cells; `floor` is the name
    of what a constant reaches in them, `clients` reads their counts.
    """
    spread = intervals.spread(values, expected)
    done = cells[[status == "done" for status in listed(cells, "status")]]
    return {
        "ours": spread.mean,
        "std": spread.std,
        "seeds": spread.count,
        "low": spread.low,
        "high": spread.high,
        "df": spread.df,
        "reason": why_missing(cells, scale),
        "scale": scale,
        "floor": constant_floor(done, floor),
        "method": str(first(cells, "method", "")),
        "tier": tier(cells),
        "ids": tuple(listed(done, "id")),
        "by_seed": _by_seed(done, values, floor, clients),
    }


def _by_seed(
    done: pd.DataFrame, values: Sequence[float], floor: str, clients: Clients | None
) -> tuple[OfSeed, ...]:
    """Every seed's number; none where numbers are not one per seed."""
    seeds = listed(done, "seed")
    if len(values) != len(seeds) or len(set(seeds)) < len(seeds):
        return ()
    runs = zip(seeds, values, constant_floors(done, floor), listed(done, "id"), strict=True)
    return tuple(
        OfSeed(int(seed), float(value), float(low), partial(clients, [id_]))
        if clients
        else OfSeed(int(seed), float(value), float(low))
        for seed, value, low, id_ in runs
        if isfinite(value)
    )


# -- read off curves -------------------------------------------------------------------------------

Value = Callable[[pd.Series, pd.DataFrame], float]
"""From a finished cell and its curves to a number."""


def from_rounds(
    evidence: Evidence, planned: pd.DataFrame, value: Value, *names: str
) -> dict[str, Any]:
    """Return our side of a table cell whose numbers are read off stored curves of these names."""
    done = planned[planned["status"] == "done"]
    rounds = evidence.rounds(list(done["id"]), *names)
    values = [value(cell, rounds[rounds["id"] == cell["id"]]) for _, cell in done.iterrows()]
    return gather(planned, evidence.scale, values)


def per_round(rounds: pd.DataFrame, *lines: str) -> pd.Series:
    """Return the bytes of some lines of the ledger by round, over all clients."""
    kept = rounds[rounds["name"].isin([f"traffic/{line}" for line in lines])]
    return kept.groupby("round")["value"].sum()
