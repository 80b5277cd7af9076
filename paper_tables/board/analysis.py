"""The board's statistics of methods, as pure functions of tables.

`trials` has one row per trial: method, column (the recipe), study, status, validation. `scores` has
one row per method, column and study: its chosen trial, with its accuracy and costs. `clients` has
one row per method, column, study and client: accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import nan, sqrt

import numpy as np
import pandas as pd

from repfl.paper_tables.core.statistics import rank_statistics
from repfl.paper_tables.core.statistics.intervals import LEVEL
from repfl.paper_tables.core.statistics.pairwise import (
    Pairs,
    against_leader,
    floored,
    pairs,
    studentized_range,
)

RUN_KEYS = ["method", "column", "study"]
BLOCK_KEYS = ["column", "study"]
"""Methods are compared within a block: the same clients, initial values and order of batches."""
SHARE_OF_BEST = 0.9
COST_TOLERANCE = 1.01
"""Costs within one per cent of each other count as equal."""


def spread_of_trials(trials: pd.DataFrame) -> pd.Series:
    """Return by method and column the range of validation accuracy over finished trials, as the
    mean over studies; NaN if trials are missing.
    """
    keys = [trials[name] for name in RUN_KEYS]
    complete = trials["status"].ne("missing").groupby(keys[:2]).transform("all")
    grouped = trials["validation"].where(complete & (trials["status"] == "done")).groupby(keys)
    return (grouped.max() - grouped.min()).groupby(["method", "column"]).mean()


# -- accuracy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MethodMeans:
    """Means of methods in one column, and the uncertainty of their differences."""

    means: pd.Series
    pairs: Pairs = field(default_factory=Pairs)
    """The variance of each method."""

    @property
    def half_widths(self) -> pd.Series:
        """Half of the 95 % interval of each mean, without effects common to all methods."""
        return self.pairs.half_widths.reindex(self.means.index)


def method_means(scores: pd.DataFrame, column: str, name: str = "value") -> MethodMeans:
    """Return means over studies, and the noise of every method.

    Studies differ in partition, initial values and draws, which all methods of a study share. This
    common effect changes no comparison and is left out.
    """
    wide = _by_study(scores, column)[name].unstack()
    return MethodMeans(wide.mean(axis="columns", skipna=False), pairs([wide]))


def near_leader(stats: MethodMeans, order: pd.Series) -> list[str]:
    """Return the first of an order, and those that are not significantly different from it."""
    first, *others = map(str, order.index)
    limits = {name: stats.pairs.critical_difference(first, name) for name in others}
    near = (n for n, limit in limits.items() if not abs(order[n] - order[first]) >= limit)
    return [first, *near]


def gains(tuned: pd.DataFrame, printed: pd.DataFrame, column: str) -> MethodMeans:
    """Return what tuning adds to methods, from differences between two runs of one study."""
    values = [_by_study(scores, column)["value"] for scores in (tuned, printed)]
    gap = (values[0] - values[1]).dropna().groupby("method")
    table = pd.DataFrame({"variance": gap.var(ddof=1), "df": gap.size() - 1.0}).dropna()
    if table.empty:
        return MethodMeans(gap.mean())
    variances = floored(table["variance"], table["df"])
    return MethodMeans(gap.mean(), Pairs(variances, int(gap.size().max())))


def _by_study(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    return scores[scores["column"] == column].set_index(["method", "study"])


# -- clients ---------------------------------------------------------------------------------------


def harm_by_cell(clients: pd.DataFrame, alone: str) -> pd.DataFrame:
    """Return the clients below their own local model, tuned alike, in the same study. By method,
    column and study: `harm`, their share of all clients in percent, and `loss`, their mean loss in
    the unit of accuracy; no row if a study has no local models.
    """
    keys = [*BLOCK_KEYS, "client"]
    local = clients.loc[clients["method"] == alone, [*keys, "accuracy"]]
    pairs = clients[clients["method"] != alone].merge(
        local.rename(columns={"accuracy": "alone"}), on=keys
    )
    lost = (pairs["alone"] - pairs["accuracy"]).clip(lower=0)
    by_run = pairs.assign(harm=100.0 * (lost > 0), loss=lost).groupby(RUN_KEYS)[["harm", "loss"]]
    shares = by_run.mean()
    return shares.assign(loss=(100 * shares["loss"] / shares["harm"]).fillna(0.0)).reset_index()


def mean_loss(scores: pd.DataFrame, column: str) -> pd.Series:
    """Return the mean loss of harmed clients, over the studies of a column."""
    cells = _by_study(scores, column)
    lost = (cells["harm"] * cells["loss"]).groupby("method").sum(min_count=1)
    return (lost / cells["harm"].groupby("method").sum()).fillna(lost)


def win_probability(clients: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """Return the probability that a client is better off with the row's method than with the
    column's; equal accuracies count half. Every block weighs the same.
    """
    wide = clients.pivot(index=[*BLOCK_KEYS, "client"], columns="method", values="accuracy")
    result = pd.DataFrame(nan, index=list(methods), columns=list(methods))
    for row in wide.columns.intersection(list(methods)):
        gaps = wide.drop(columns=row).rsub(wide[row], axis="index")
        wins = ((gaps > 0) + 0.5 * (gaps == 0)).where(gaps.notna())
        result.loc[row] = wins.groupby(BLOCK_KEYS).mean().mean().reindex(list(methods))
    return result


# -- comparisons over blocks -----------------------------------------------------------------------


def against(scores: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Return every method's mean difference to one over blocks, and its p value; the index names
    the methods.
    """
    return against_leader(scores.pivot(index="method", columns=BLOCK_KEYS, values="value"), leader)


def overall(scores: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the method that ranks first on average, and every method's rank, its difference to
    that one, its p value, and whether the difference is not significant (`near`); both empty if no
    block has all methods.
    """
    average_ranks, _ = ranks(scores)
    if not average_ranks.notna().any():
        return "", pd.DataFrame()
    leader = str(average_ranks.idxmin())
    differences = against(scores, leader).reindex(average_ranks.index)
    return leader, differences.assign(rank=average_ranks, near=~(differences["p"] < 1 - LEVEL))


def ranks(scores: pd.DataFrame) -> tuple[pd.Series, float]:
    """Return average ranks over the blocks that all methods have, and Nemenyi's critical difference
    of two ranks at 5 %.
    """
    wide = scores.pivot(index="method", columns=BLOCK_KEYS, values="value")
    methods, blocks = len(wide), wide.dropna(axis="columns").shape[1]
    if not blocks or methods < 2:
        return rank_statistics.average_ranks(wide), nan
    error = sqrt(methods * (methods + 1) / (12 * blocks))
    return rank_statistics.average_ranks(wide), studentized_range(methods, np.inf) * error


def pareto_front(accuracy: pd.Series, cost: pd.Series) -> list[str]:
    """Return the methods that no other beats in accuracy at the same cost or less, the cheapest
    first; costs within the tolerance count as equal.
    """
    methods = pd.concat({"accuracy": accuracy, "cost": cost}, axis=1, join="inner").dropna()
    methods = methods.sort_values(["cost", "accuracy"], ascending=[True, False], kind="stable")
    front: list[str] = []
    reached = -np.inf
    for name, (value, price) in methods.iterrows():
        affordable = methods["cost"] <= COST_TOLERANCE * price
        if value > reached and value >= methods.loc[affordable, "accuracy"].max():
            front.append(str(name))
            reached = value
    return front


def rounds_to(curve: pd.Series) -> float:
    """Return the first scored round in which a curve reaches a share of its own best."""
    scored = curve.dropna().sort_index()
    if scored.empty or scored.max() <= 0:
        return nan
    return float(scored.index[scored >= SHARE_OF_BEST * scored.max()][0])
