"""The noise of a run: how far apart runs lie that differ in their seed alone.

Most cells have one run, so most of their variances are unknown. They are predicted from those of
our own cells that have several, at the same scale: log variances of cells are normal about a common
mean. The fewer or the more unequal these cells, the wider the prediction.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy import special

from repfl.paper_tables.core.statistics.intervals import Prior

GROUPS = ("pool", "setting", "method", "variance", "df", "shared")
RUNS = ("pool", "setting", "method", "variant", "seed", "value", "n_test", "shared")
MEAN_VARIANCE = 4.0
"""Prior of the mean log variance: a run deviates by one point, give or take a factor of e."""
SPREADS = np.exp(np.linspace(-3.0, 2.5, 56))
"""Standard deviations of log variances between cells that are weighed, ..."""
SPREAD_VARIANCE = 0.5
"""... a priori about 1, give or take a factor of two."""


def pool(scale: str, *, one_partition: bool) -> str:
    """Name the cells whose noise is compared: one scale, and whether each seed has a partition."""
    return f"{scale}, {'one partition' if one_partition else 'a partition per seed'}"


def groups_of(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the variance of each cell with several seeds (columns `GROUPS`), from accuracies in
    percent (columns `RUNS`).
    """
    groups = []
    for labels, cell in runs.groupby(["pool", "setting", "method", "variant"], sort=True):
        if len(cell) > 1:
            # equal accuracies of a few hundred images are equal by their rounding
            rounding_variance = (100 / float(cell["n_test"].iloc[0])) ** 2 / 12
            variance = max(float(cell["value"].var(ddof=1)), rounding_variance)
            groups.append((*labels[:-1], variance, len(cell) - 1, bool(cell["shared"].iloc[0])))
    return pd.DataFrame(groups, columns=list(GROUPS))


@dataclass(frozen=True)
class Noise:
    """Predicts variances from cells with several seeds."""

    groups: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(GROUPS)))
    _cache: dict[tuple[str, str, str], Prior] = field(default_factory=dict)

    def expected(self, pool: str, setting: str, method: str) -> Prior:
        """Return the prior for the variance of one cell from the other cells of a pool. Its own
        runs are left out, so that they count once.
        """
        key = (pool, setting, method)
        if key not in self._cache:
            same_cell = (self.groups["setting"] == setting) & (self.groups["method"] == method)
            self._cache[key] = predict(self.groups[(self.groups["pool"] == pool) & ~same_cell])
        return self._cache[key]


def predict(groups: pd.DataFrame) -> Prior:
    """Return the prior for the variance of another cell like these (empirical Bayes; fixed priors
    take over if there are few cells).
    """
    half = groups["df"].to_numpy(dtype=float)[:, None] / 2
    logs = np.log(groups["variance"].to_numpy(dtype=float))[:, None]
    logs = logs - special.digamma(half) + np.log(half)
    # rows of one column whose seeds share their partitions err together: all of them count as one
    rows = groups.groupby("setting")["df"].transform("size").to_numpy(dtype=float)
    correlated = np.where(groups["shared"].to_numpy(dtype=bool), rows, 1.0)[:, None]
    weight = 1 / (special.polygamma(1, half) * correlated + SPREADS**2)  # [cells, spreads]
    precision = 1 / MEAN_VARIANCE + weight.sum(axis=0)
    mean = (weight * logs).sum(axis=0) / precision
    likely = np.log(weight).sum(axis=0) - np.log(precision) - (weight * logs**2).sum(axis=0)
    likely = (likely + mean**2 * precision - np.log(SPREADS) ** 2 / SPREAD_VARIANCE) / 2
    share = special.softmax(likely)
    centre = float(share @ mean)
    return Prior(centre, float(share @ (1 / precision + SPREADS**2 + (mean - centre) ** 2)))


NO_GROUPS = Noise()
"""The noise model if no cell has several seeds."""
