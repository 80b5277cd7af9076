"""Numbers of several seeds: which seeds they have in common, and what they come to over these. Each
seed may deal other clients, so means over different seeds are of different problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite, nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

ROUNDING = 1e-4
"""Published values are rounded."""


class OfSeed(NamedTuple):
    """What one seed's run came to, and the floor among its clients."""

    seed: int
    value: float
    floor: float = nan
    counts: Callable[[], pd.DataFrame] = pd.DataFrame
    """Reads each client's correct and total decisions, as far as they are known."""

    def by_client(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the accuracy of each client in percent, and its weight in `value`; nothing if
        `value` is no mean over these clients.
        """
        counts = self.counts()
        total = counts["total"].to_numpy(dtype=float) if len(counts) else np.zeros(0)
        if len(total) and total.min() > 0:
            accuracy = 100 * counts["correct"].to_numpy(dtype=float) / total
            for weight in (np.full(len(total), 1 / len(total)), total / total.sum()):
                if abs(float(weight @ accuracy) - self.value) < ROUNDING:
                    return accuracy, weight
        return np.zeros(0), np.zeros(0)


def of_runs(by_seed: Iterable[Any]) -> list[tuple[OfSeed, ...]]:
    """The numbers that rest on runs."""
    return [runs for runs in by_seed if isinstance(runs, tuple) and runs]


def shared(by_seed: Iterable[Any]) -> tuple[int, ...]:
    """The seeds that all of some numbers have: each seed may deal other clients, and a mean over
    others is of another problem. Numbers without runs, such as sizes, have no say.
    """
    known = [{run.seed for run in runs} for runs in of_runs(by_seed)]
    return tuple(sorted(set.intersection(*known))) if known else ()


def mixed(by_seed: Iterable[Any]) -> bool:
    """Whether some numbers are of different seeds."""
    return len({frozenset(run.seed for run in runs) for runs in of_runs(by_seed)}) > 1


def common_floor(cells: pd.DataFrame) -> tuple[float, tuple[int, ...]]:
    """The floor of a column, and the seeds that it is of: those that all of its rows with a floor
    have. Rows of another scale may deal other clients: beside runs at full scale only these count,
    and other mixed columns have none.
    """
    cells = cells[cells["floor"].notna()]
    if (cells["scale"] == "paper").any():
        cells = cells[cells["scale"] == "paper"]
    if cells["scale"].nunique() > 1:
        return nan, ()
    by_seed = cells["by_seed"]
    seeds = shared(by_seed)
    known = [run.floor for runs in of_runs(by_seed) for run in runs if run.seed in seeds]
    known = [floor for floor in known if isfinite(floor)]
    return sum(known) / len(known) if known else nan, seeds


def paired(frame: pd.DataFrame) -> pd.DataFrame:
    """The numbers of every column over the seeds that all of its rows have."""
    ours = dict(frame["ours"].astype(float).items())
    for _, cells in frame.groupby("column", sort=False):
        if mixed(cells["by_seed"]):
            common = set(shared(cells["by_seed"]))
            for place, runs in cells["by_seed"].items():
                if of_runs([runs]):
                    kept = [run.value for run in runs if run.seed in common]
                    ours[place] = float(np.mean(kept)) if kept else nan
    return frame.assign(ours=pd.Series(ours, dtype=float))


def constant_floor(done: pd.DataFrame, name: str) -> float:
    """Return what a constant reaches, in percent: the mean over finished cells, if it is known."""
    floors = constant_floors(done, name)
    known = floors[np.isfinite(floors)]
    return float(known.mean()) if len(known) else nan


def constant_floors(done: pd.DataFrame, name: str) -> np.ndarray:
    """Return what a constant reaches in every cell, in percent."""
    if name not in done:
        return np.full(len(done), nan)
    return 100 * pd.to_numeric(done[name], errors="coerce").to_numpy(dtype=float)
