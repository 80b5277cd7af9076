"""Numbers on which a condition holds, or does not: a linear programme over the cells it names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, islice

import numpy as np
import pandas as pd
from scipy import optimize, sparse

from repfl.paper_tables.core.claims.conditions import CellKey, Condition

CLEAR = 0.002
"""How far from equality the solution stays."""
TRIES = 50
Leaves = list[Condition]


def layouts(condition: Condition, *, holds: bool) -> Iterator[Leaves]:
    """Choices of differences that, all at once there or all at once absent, decide a condition."""
    if not condition.parts:
        yield [condition]
        return
    count = len(condition.parts)
    needed = condition.least if holds else count - condition.least + 1
    for chosen in islice(combinations(condition.parts, needed), TRIES):
        first = [list(islice(layouts(part, holds=holds), TRIES)) for part in chosen]
        for place in range(max(map(len, first), default=0)):
            yield list(chain.from_iterable(each[min(place, len(each) - 1)] for each in first))


def solve(condition: Condition, side: str, *, holds: bool) -> dict[CellKey, float]:
    """A number for every cell that a condition names, so that it holds on one side of a table."""
    places = list(dict.fromkeys(p for x in condition.leaves() for p in x.difference.factors))
    at = {place: column for column, place in enumerate(places)}
    for leaves in layouts(condition, holds=holds):
        rows, bounds = sparse.lil_array((len(leaves), len(places))), np.zeros(len(leaves))
        for row, leaf in enumerate(leaves):
            sign = -1.0 if holds else 1.0
            for place, factor in leaf.difference.factors.items():
                rows[row, at[place]] = sign * factor
            given = leaf.difference.constant + (leaf.margin if side == "ours" else leaf.slack)
            bounds[row] = -sign * given - CLEAR
        found = optimize.linprog(
            np.zeros(len(places)), A_ub=rows.tocsr(), b_ub=bounds, bounds=(-500, 500)
        )
        if found.success:
            return dict(zip(places, map(float, found.x), strict=True))
    raise AssertionError(f"no numbers on which the condition {'holds' if holds else 'fails'}")


def filled(
    frame: pd.DataFrame, numbers: dict[CellKey, float], side: str, half: float
) -> pd.DataFrame:
    """A long table with these numbers on one side, and intervals of this half width about ours."""
    places: Iterable[CellKey] = zip(frame["row"], frame["column"], strict=True)
    values = pd.Series([numbers.get(place, 50.0) for place in places], index=frame.index)
    if side == "published":
        return frame.assign(published=values)
    alike = frame.drop(columns="by_seed", errors="ignore")
    return alike.assign(ours=values, low=values - half, high=values + half, df=30.0, seeds=3)
