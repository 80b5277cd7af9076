"""The noise of a run: how far apart runs lie that differ in their seed alone.

Most cells have one run, so most deviations are unknown. This model learns from the cells that have
several, ours and those that print a deviation, what to expect of a cell: the logarithm of its
variance is a sum of four random effects (the pool, which is the scale and whether every seed draws
a partition of its own; the setting, which is a column of a paper, or several whose clients hold the
same images; the method; the cell itself).
What is expected is a variance worth so many degrees of freedom: the less is known, the fewer.
`bench/STATISTICS.md` tells it in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from scipy import optimize, special

from repfl.paper_tables.core.published import Printing
from repfl.paper_tables.core.statistics import Expected

LABELS = ("pool", "setting", "method")
GROUPS = (*LABELS, "variance", "df", "shared")
RUNS = (*LABELS, "variant", "seed", "value", "n_test", "shared")
TYPICAL = 0.0
"""Logarithm of the variance that is expected where nothing is known: a deviation of one point ...
"""
TYPICAL_VARIANCE = 4.0
"""... give or take a factor of e, in the deviation."""
COMPONENT = 0.0
"""Logarithm of every effect's deviation before any data ..."""
COMPONENT_SPREAD = 0.7
"""... give or take a factor of two."""
MOST_DF = 30.0
ALIASES = {
    "Local-Only": "local",
    "Separate": "local",
    "Local Only": "local",
    "FedAvg + FT": "fedavg-ft",
}
"""What papers call methods whose name is not ours."""


def pool(scale: str, *, one_partition: bool) -> str:
    """The name of a pool."""
    return f"{scale}, {'one partition' if one_partition else 'a partition per seed'}"


def groups_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Cells with several seeds (columns `RUNS`, accuracies in percent) as groups: their variance
    and its degrees of freedom.
    """
    found = []
    for labels, cell in runs.groupby([*LABELS, "variant"], sort=True):
        if len(cell) > 1:
            # equal accuracies of a few hundred images are equal by their rounding, not for want of
            # noise
            least = (100 / float(cell["n_test"].iloc[0])) ** 2 / 12
            variance = max(float(cell["value"].var(ddof=1)), least)
            found.append((*labels[:-1], variance, len(cell) - 1, bool(cell["shared"].iloc[0])))
    return pd.DataFrame(found, columns=list(GROUPS))


def method_of(name: str) -> str:
    """Our name of a method that a paper prints."""
    return ALIASES.get(name, name.lower())


def printed_groups(
    published: pd.DataFrame, paper: str, table: str, places: Mapping[str, Any], printing: Printing
) -> pd.DataFrame:
    """Printed deviations as groups. `places` are the columns of a table, and where the csv has
    them.
    """
    found = []
    where = {(place.dataset, place.setting): column for column, place in places.items()}
    for _, row in published[published["table"] == table].iterrows():
        std, column = printing.deviation(row["std"]), where.get((row["dataset"], row["setting"]))
        if column is not None and isfinite(std):
            labels = (
                pool("paper", one_partition=not printing.own_partitions),
                f"{paper}/{column}",
                method_of(row["method"]),
            )
            found.append((*labels, std**2, printing.runs - 1, printing.own_partitions))
    return pd.DataFrame(found, columns=list(GROUPS))


def fit(groups: pd.DataFrame, same: Mapping[str, str] | None = None) -> Noise:
    """The model of some groups (columns `GROUPS`); of none, the model that knows nothing. `same`
    says which settings share the effect of another one.
    """
    same = same or {}
    cells = list(groups[list(LABELS)].itertuples(index=False, name=None))
    shared = groups.assign(setting=[same.get(name, name) for name in groups["setting"]])
    levels = [(name, level) for name in LABELS for level in sorted(set(shared[name]))]
    design = np.ones((len(groups), 1 + len(levels)))
    for place, (name, level) in enumerate(levels, start=1):
        design[:, place] = shared[name] == level
    half = groups["df"].to_numpy(dtype=float) / 2
    heard = np.log(groups["variance"].to_numpy(dtype=float)) - special.digamma(half) + np.log(half)
    # rows of one column whose seeds share their partitions err together: all of them count as one
    together = (
        groups.groupby(["pool", "setting"])["df"]
        .transform("size")
        .where(groups["shared"].astype(bool), 1)
    )
    error = special.polygamma(1, half) * together.to_numpy(dtype=float)
    data = Heard(
        cells,
        {level: place for place, level in enumerate(levels, start=1)},
        design,
        heard - TYPICAL,
        error,
    )
    return Noise(data, _most_likely(data), same)


@dataclass(frozen=True)
class Heard:
    """What groups tell: logarithms of their variances, corrected for bias, with sampling variances;
    which effects each one has.
    """

    cells: list[tuple[str, str, str]]
    levels: Mapping[tuple[str, str], int]
    design: np.ndarray
    logs: np.ndarray
    error: np.ndarray

    @cached_property
    def pools(self) -> list[str]:
        return sorted({cell[0] for cell in self.cells})

    def before(self, sizes: np.ndarray) -> np.ndarray:
        """Variances of the effects before any data; `sizes` are those of `LABELS`, then of the
        cells of every pool.
        """
        kinds = [LABELS.index(name) for name, _ in self.levels]
        return np.concatenate([[TYPICAL_VARIANCE], sizes[kinds]])

    def noise(self, sizes: np.ndarray) -> np.ndarray:
        """Variance of every group about its effects."""
        own = [len(LABELS) + self.pools.index(cell[0]) for cell in self.cells]
        return np.asarray(self.error + sizes[own])


def _most_likely(data: Heard) -> np.ndarray:
    """Variances of the effects: where likelihood and a wide prior together are highest."""
    start = np.full(len(LABELS) + len(data.pools), COMPONENT)

    def surprise(logs: np.ndarray) -> float:
        sizes = np.exp(2 * logs)
        noise, before = data.noise(sizes), data.before(sizes)
        precision = np.diag(1 / before) + (data.design.T / noise) @ data.design
        pull = data.design.T @ (data.logs / noise)
        determinant = np.log(noise).sum() + np.log(before).sum() + np.linalg.slogdet(precision)[1]
        distance = data.logs @ (data.logs / noise) - pull @ np.linalg.solve(precision, pull)
        return float(
            (determinant + distance) / 2 + (((logs - COMPONENT) / COMPONENT_SPREAD) ** 2).sum() / 2
        )

    if data.cells:
        start = optimize.minimize(
            surprise,
            start,
            method="L-BFGS-B",
            bounds=[(-4, 2)] * len(start),
            options={"ftol": 1e-5},
        ).x
    return np.asarray(np.exp(2 * start))


@dataclass(frozen=True)
class Noise:
    """The fitted model."""

    data: Heard
    sizes: np.ndarray
    """Variances of the effects of pool, setting and method, then of the cells of every pool."""
    same: Mapping[str, str] = field(default_factory=dict)
    _known: dict[tuple[str, str, str], Expected] = field(default_factory=dict)

    @cached_property
    def _posterior(self) -> tuple[np.ndarray, np.ndarray]:
        """Covariance of the effects, and what the groups pull them to."""
        noise, design = self.data.noise(self.sizes), self.data.design
        precision = np.diag(1 / self.data.before(self.sizes)) + (design.T / noise) @ design
        return np.linalg.inv(precision), design.T @ (self.data.logs / noise)

    def expected(self, pool: str, setting: str, method: str) -> Expected:
        """What all other cells tell of this one; what it has itself is no news."""
        key = (pool, setting, method)
        if key not in self._known:
            self._known[key] = _as_variance(*self._told(key))
        return self._known[key]

    def _told(self, key: tuple[str, str, str]) -> tuple[float, float]:
        """Mean and variance of the logarithm of a cell's variance."""
        covariance, pull = self._posterior
        noise = self.data.noise(self.sizes)
        for row in [place for place, cell in enumerate(self.data.cells) if cell == key]:
            seen = self.data.design[row]
            turned = covariance @ seen
            covariance = covariance + np.outer(turned, turned) / (noise[row] - seen @ turned)
            pull = pull - seen * self.data.logs[row] / noise[row]
        pools = self.data.pools
        unknown = (
            float(self.sizes[len(LABELS) + pools.index(key[0])])
            if key[0] in pools
            else float(np.exp(2 * COMPONENT))
        )
        place = np.zeros(len(pull))
        place[0] = 1.0
        effects = key[0], self.same.get(key[1], key[1]), key[2]
        for size, label in zip(
            self.sizes[: len(LABELS)], zip(LABELS, effects, strict=True), strict=True
        ):
            if label in self.data.levels:
                place[self.data.levels[label]] = 1.0
            else:
                unknown += float(size)
        return TYPICAL + float(place @ covariance @ pull), float(
            place @ covariance @ place
        ) + unknown


def _as_variance(mean: float, spread: float) -> Expected:
    """The scaled inverse chi-square distribution whose logarithm has this mean and variance."""
    half = optimize.brentq(lambda x: float(special.polygamma(1, x)) - spread, 1e-2, 1e4)
    half = min(float(half), MOST_DF / 2)
    return Expected(float(np.exp(mean - np.log(half) + special.digamma(half))), 2 * half)


UNKNOWN = fit(pd.DataFrame(columns=list(GROUPS)))
"""The model that has seen nothing."""
