"""Numbers of several seeds: their common seeds, and their means over these. Each seed may deal
other clients, so means over different seeds are of different problems.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd


class SeedResult(NamedTuple):
    """The result of one seed's run, and the majority-class baseline of its clients."""

    seed: int
    value: float
    floor: float = nan


def with_runs(by_seed: Iterable[Any]) -> list[tuple[SeedResult, ...]]:
    """Return the entries that are results of runs."""
    return [runs for runs in by_seed if isinstance(runs, tuple) and runs]


def shared(by_seed: Iterable[Any]) -> tuple[int, ...]:
    """Return the seeds that all of some numbers have: each seed may deal other clients, so means
    over other seeds are of another problem. Numbers without runs, such as sizes, are ignored.
    """
    seed_sets = [{run.seed for run in runs} for runs in with_runs(by_seed)]
    return tuple(sorted(set.intersection(*seed_sets))) if seed_sets else ()


def mixed(by_seed: Iterable[Any]) -> bool:
    """Return whether some numbers are over different seeds."""
    return len({frozenset(run.seed for run in runs) for runs in with_runs(by_seed)}) > 1


def common_floor(cells: pd.DataFrame, aside: Collection[str] = ()) -> tuple[float, tuple[int, ...]]:
    """Return the floor of a column and the seeds that it is over: those that all of its rows with a
    floor have. Rows of another scale may deal other clients: beside runs at full scale only these
    count, and other mixed columns have none. Rows that stand aside count if no others have one.
    """
    cells = cells[cells["floor"].notna()]
    if (cells["scale"] == "paper").any():
        cells = cells[cells["scale"] == "paper"]
    if not (competing := cells[~cells["row"].isin(aside)]).empty:
        cells = competing
    if cells["scale"].nunique() > 1:
        return nan, ()
    by_seed = cells["by_seed"]
    seeds = shared(by_seed)
    floors = [run.floor for runs in with_runs(by_seed) for run in runs if run.seed in seeds]
    floors = [floor for floor in floors if isfinite(floor)]
    return sum(floors) / len(floors) if floors else nan, seeds


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace the numbers of every column by means over the seeds that all of its rows have."""
    ours = dict(frame["ours"].astype(float).items())
    for _, cells in frame.groupby("column", sort=False):
        if mixed(cells["by_seed"]):
            common = set(shared(cells["by_seed"]))
            for index, runs in cells["by_seed"].items():
                if with_runs([runs]):
                    values = [run.value for run in runs if run.seed in common]
                    ours[index] = float(np.mean(values)) if values else nan
    return frame.assign(ours=pd.Series(ours, dtype=float))


def constant_floor(done: pd.DataFrame, name: str) -> float:
    """Return a constant prediction's accuracy in percent: mean over finished cells that have it."""
    floors = constant_floors(done, name)
    finite = floors[np.isfinite(floors)]
    return float(finite.mean()) if len(finite) else nan


def constant_floors(done: pd.DataFrame, name: str) -> np.ndarray:
    """Return the accuracy of a constant prediction in every cell, in percent."""
    if name not in done:
        return np.full(len(done), nan)
    return 100 * pd.to_numeric(done[name], errors="coerce").to_numpy(dtype=float)
