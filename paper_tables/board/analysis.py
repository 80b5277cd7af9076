"""What the board says of methods, as pure functions of tables.

`trials` has one row per trial: method, column (the recipe), study, status, validation. `scores` has
one row per method, column and study: its chosen trial, with value and whatever is measured beside
it. `clients` has one row per method, column, study and client: accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt

import numpy as np
import pandas as pd
from scipy import stats

from repfl.paper_tables.core import statistics

PLACE = ["method", "column", "study"]
BLOCK = ["column", "study"]
"""What methods are compared within: the same clients, initial values and order of batches."""
OWN_BEST = 0.9


def spread_of_trials(trials: pd.DataFrame) -> pd.Series:
    """By method and column: how far validation accuracy moves over trials, as the mean over
    studies of their range; failed trials count as zero.
    """
    scored = trials["validation"].where(trials["status"] == "done", 0.0)
    grouped = scored.groupby([trials[name] for name in PLACE])
    return (grouped.max() - grouped.min()).groupby(["method", "column"]).mean()


# -- accuracy --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Standing:
    """Means of methods in one column, and what their differences are uncertain by."""

    means: pd.Series
    half: float
    """Half of a 95 % interval of a mean, without what all methods of a study have in common."""


def standing(scores: pd.DataFrame, column: str) -> Standing:
    """Means over studies with one interval for all methods (after Loftus and Masson).

    Studies differ in partition, initial values and draws, which all methods of a study share. What
    a study does to all of them moves no comparison and is left out; what is left, method by study,
    is the noise that differences have.
    """
    wide = scores[scores["column"] == column].pivot(index="method", columns="study", values="value")
    complete = wide.dropna()
    rows, studies = complete.shape
    df = (rows - 1) * (studies - 1)
    if min(rows, studies) < 2:
        return Standing(wide.mean(axis="columns"), nan)
    rest = complete.sub(complete.mean(axis="columns"), axis="index")
    rest = rest - rest.mean(axis="index")
    variance = float((rest**2).to_numpy().sum()) / df
    half = float(statistics.half_width(variance, df, 1 / studies))
    return Standing(wide.mean(axis="columns"), half)


# -- clients ---------------------------------------------------------------------------------------


def paired(clients: pd.DataFrame, first: str, second: str) -> pd.DataFrame:
    """The accuracies of two methods on the same clients: columns `first` and `second`."""
    keys = [*BLOCK, "client"]
    ours, theirs = (
        clients[clients["method"] == name].set_index(keys)["accuracy"] for name in (first, second)
    )
    return pd.concat({"first": ours, "second": theirs}, axis=1, join="inner")


@dataclass(frozen=True)
class Harm:
    """Whom a method leaves worse off than they would be alone."""

    share: float
    """Of all clients."""
    loss: float
    """Mean loss of those, in the unit of accuracy."""
    clients: int


def harm(clients: pd.DataFrame, method: str, alone: str) -> Harm:
    """Clients below their own local model, tuned alike, in the same study."""
    both = paired(clients, method, alone)
    gap = both["first"] - both["second"]
    lost = gap[gap < 0]
    if both.empty:
        return Harm(nan, nan, 0)
    return Harm(len(lost) / len(both), float(-lost.mean()) if len(lost) else 0.0, len(both))


def improvement(clients: pd.DataFrame, methods: Sequence[str]) -> pd.DataFrame:
    """The probability that a client is better off with the row's method than with the column's;
    equal accuracies count half. Every block weighs the same.
    """
    wide = clients.pivot(index=[*BLOCK, "client"], columns="method", values="accuracy")
    found = pd.DataFrame(nan, index=list(methods), columns=list(methods))
    for row in methods:
        for other in methods:
            if row == other or not {row, other} <= set(wide.columns):
                continue
            both = wide[[row, other]].dropna()
            won = (both[row] > both[other]) + 0.5 * (both[row] == both[other])
            found.loc[row, other] = won.groupby(BLOCK).mean().mean()
    return found


# -- comparisons over blocks -----------------------------------------------------------------------


def against(scores: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Every method's mean difference to one, over blocks, with p-values adjusted for how many
    comparisons there are (Holm); the index names the methods.
    """
    values = scores.set_index(PLACE)["value"]
    theirs = values.loc[leader]
    lines = {}
    for method in scores["method"].unique():
        if method != leader:
            gap, p_value, blocks = statistics.paired_difference(values.loc[method], theirs)
            lines[method] = {"difference": gap, "p": p_value, "blocks": blocks}
    table = pd.DataFrame.from_dict(lines, orient="index", columns=["difference", "p", "blocks"])
    return table.assign(p=statistics.holm(list(table["p"])))


def ranks(scores: pd.DataFrame) -> tuple[pd.Series, float]:
    """Average ranks over the blocks that all methods have, and the difference of two ranks that
    chance reaches in one of twenty boards (Nemenyi).
    """
    wide = scores.pivot(index="method", columns=BLOCK, values="value")
    methods, blocks = len(wide), wide.dropna(axis="columns").shape[1]
    if not blocks or methods < 2:
        return statistics.average_ranks(wide), nan
    quantile = float(stats.studentized_range.ppf(statistics.LEVEL, methods, np.inf)) / sqrt(2)
    return (statistics.average_ranks(wide), quantile * sqrt(methods * (methods + 1) / (6 * blocks)))


def front(accuracy: pd.Series, cost: pd.Series) -> list[str]:
    """The methods that no other beats in accuracy at the same cost or less, the cheapest first."""
    both = pd.concat({"accuracy": accuracy, "cost": cost}, axis=1, join="inner").dropna()
    both = both.sort_values(["cost", "accuracy"], ascending=[True, False], kind="stable")
    best = both["accuracy"].astype(float).cummax().shift(fill_value=-np.inf)
    return list(both.index[both["accuracy"] > best])


def rounds_to(curve: pd.Series, share: float = OWN_BEST) -> float:
    """The first scored round in which a curve reaches a share of its own best; the index is the
    round.
    """
    known = curve.dropna().sort_index()
    if known.empty or known.max() <= 0:
        return nan
    return float(known.index[known >= share * known.max()][0])
