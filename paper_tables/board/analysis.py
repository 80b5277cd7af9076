"""What the board says of methods, as pure functions of tables.

`trials` has one row per trial: method, column (the recipe), study, status, validation. `scores` has
one row per method, column and study: its chosen trial, with value and whatever is measured beside
it. `clients` has one row per method, column, study and client: accuracy.
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
    moderated,
    pairs,
    studentized_range,
)

PLACE = ["method", "column", "study"]
BLOCK = ["column", "study"]
"""What methods are compared within: the same clients, initial values and order of batches."""
OWN_BEST = 0.9
ALIKE = 1.01
"""Costs within one per cent of each other are taken for the same."""


def spread_of_trials(trials: pd.DataFrame) -> pd.Series:
    """By method and column: how far validation accuracy moves over trials that came to an end, as
    the mean over studies of their range; nothing where trials are still to be made.
    """
    here = [trials[name] for name in PLACE]
    made = trials["status"].ne("missing").groupby(here[:2]).transform("all")
    grouped = trials["validation"].where(made & (trials["status"] == "done")).groupby(here)
    return (grouped.max() - grouped.min()).groupby(["method", "column"]).mean()


# -- accuracy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MethodMeans:
    """Means of methods in one column, and what their differences are uncertain by."""

    means: pd.Series
    pairs: Pairs = field(default_factory=Pairs)
    """Every pair of methods has a variance of its own."""

    @property
    def half(self) -> pd.Series:
        """Half of the 95 % interval of each mean, without what all methods of a study share."""
        return self.pairs.half.reindex(self.means.index)


def method_means(scores: pd.DataFrame, column: str, name: str = "value") -> MethodMeans:
    """Means over studies, and the noise of every method.

    Studies differ in partition, initial values and draws, which all methods of a study share. What
    a study does to all of them moves no comparison and is left out.
    """
    wide = _by_study(scores, column)[name].unstack()
    return MethodMeans(wide.mean(axis="columns", skipna=False), pairs([wide]))


def near_leader(here: MethodMeans, order: pd.Series) -> list[str]:
    """The first of an order, and those whose difference to it may be chance."""
    first, *others = map(str, order.index)
    near = (n for n in others if not abs(order[n] - order[first]) >= here.pairs.apart(first, n))
    return [first, *near]


def gains(tuned: pd.DataFrame, printed: pd.DataFrame, column: str) -> MethodMeans:
    """What tuning adds to methods: of the differences within methods, each of which is between two
    runs of one study.
    """
    both = [_by_study(scores, column)["value"] for scores in (tuned, printed)]
    gap = (both[0] - both[1]).dropna().groupby("method")
    known = pd.DataFrame({"variance": gap.var(ddof=1), "df": gap.size() - 1.0}).dropna()
    if known.empty:
        return MethodMeans(gap.mean())
    variances = moderated(known["variance"], known["df"])
    return MethodMeans(gap.mean(), Pairs(variances, int(gap.size().max())))


def _by_study(scores: pd.DataFrame, column: str) -> pd.DataFrame:
    return scores[scores["column"] == column].set_index(["method", "study"])


# -- clients ---------------------------------------------------------------------------------------


def harm(clients: pd.DataFrame, alone: str) -> pd.DataFrame:
    """Clients below their own local model, tuned alike, in the same study. By method, column and
    study: `harm`, their share of all clients in percent, and `loss`, what they lose on average, in
    the unit of accuracy; nothing where a study has no local models.
    """
    keys = [*BLOCK, "client"]
    own = clients.loc[clients["method"] == alone, [*keys, "accuracy"]]
    both = clients[clients["method"] != alone].merge(
        own.rename(columns={"accuracy": "alone"}), on=keys
    )
    lost = (both["alone"] - both["accuracy"]).clip(lower=0)
    grouped = both.assign(harm=100.0 * (lost > 0), loss=lost).groupby(PLACE)[["harm", "loss"]]
    found = grouped.mean()
    return found.assign(loss=(100 * found["loss"] / found["harm"]).fillna(0.0)).reset_index()


def mean_loss(scores: pd.DataFrame, column: str) -> pd.Series:
    """What harmed clients lose on average, over the studies of a column."""
    here = _by_study(scores, column)
    lost = (here["harm"] * here["loss"]).groupby("method").sum(min_count=1)
    return (lost / here["harm"].groupby("method").sum()).fillna(lost)


def improvement(clients: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The probability that a client is better off with the row's method than with the column's;
    equal accuracies count half. Every block weighs the same.
    """
    wide = clients.pivot(index=[*BLOCK, "client"], columns="method", values="accuracy")
    found = pd.DataFrame(nan, index=list(methods), columns=list(methods))
    for row in wide.columns.intersection(list(methods)):
        gaps = wide.drop(columns=row).rsub(wide[row], axis="index")
        won = ((gaps > 0) + 0.5 * (gaps == 0)).where(gaps.notna())
        found.loc[row] = won.groupby(BLOCK).mean().mean().reindex(list(methods))
    return found


# -- comparisons over blocks -----------------------------------------------------------------------


def against(scores: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Every method's mean difference to one, over blocks, and its chance; the index names the
    methods.
    """
    return against_leader(scores.pivot(index="method", columns=BLOCK, values="value"), leader)


def overall(scores: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return who ranks first on average, and every method's rank, its difference to that one, its
    chance, and whether the difference is not significant (`near`); both empty if no block has all
    methods.
    """
    places, _ = ranks(scores)
    if not places.notna().any():
        return "", pd.DataFrame()
    leader = str(places.idxmin())
    found = against(scores, leader).reindex(places.index)
    return leader, found.assign(rank=places, near=~(found["p"] < 1 - LEVEL))


def ranks(scores: pd.DataFrame) -> tuple[pd.Series, float]:
    """Average ranks over the blocks that all methods have, and the difference of two ranks that
    chance reaches in one of twenty boards (Nemenyi).
    """
    wide = scores.pivot(index="method", columns=BLOCK, values="value")
    methods, blocks = len(wide), wide.dropna(axis="columns").shape[1]
    if not blocks or methods < 2:
        return rank_statistics.average_ranks(wide), nan
    error = sqrt(methods * (methods + 1) / (12 * blocks))
    return rank_statistics.average_ranks(wide), studentized_range(methods, np.inf) * error


def front(accuracy: pd.Series, cost: pd.Series) -> list[str]:
    """The methods that no other beats in accuracy at the same cost or less, the cheapest first;
    costs that hardly differ are the same.
    """
    both = pd.concat({"accuracy": accuracy, "cost": cost}, axis=1, join="inner").dropna()
    both = both.sort_values(["cost", "accuracy"], ascending=[True, False], kind="stable")
    found: list[str] = []
    reached = -np.inf
    for name, (own, spent) in both.iterrows():
        if own > reached and own >= both.loc[both["cost"] <= ALIKE * spent, "accuracy"].max():
            found.append(str(name))
            reached = own
    return found


def rounds_to(curve: pd.Series) -> float:
    """The first scored round in which a curve reaches a share of its own best."""
    known = curve.dropna().sort_index()
    if known.empty or known.max() <= 0:
        return nan
    return float(known.index[known >= OWN_BEST * known.max()][0])
