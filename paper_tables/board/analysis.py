"""The board's runs, and how its methods compare: frames that its tables and figures show.

Methods are compared within a study of a recipe, which gives all of them the same clients, initial
values and order of batches.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from math import nan, sqrt

import numpy as np
import pandas as pd

from repfl.paper_tables.core.evidence import Evidence, scores
from repfl.paper_tables.core.statistics import rank_statistics
from repfl.paper_tables.core.statistics.intervals import LEVEL
from repfl.paper_tables.core.statistics.pairwise import (
    Pairs,
    against_leader,
    floored,
    pairs,
    studentized_range,
)
from repfl.paper_tables.core.statistics.seeds import SeedResult

ALONE, TUNED = "Local", "FedAvg + FT"
"""Local training, and one model that each client fine-tunes: all rows are compared with both."""
REFERENCES = (ALONE, TUNED)
REPLACED = {
    "pFedSD": "pFedSD, before aggregation",
    "Star-PFL": "Star-PFL, before aggregation",
    "FedBABU": "FedBABU, tuned rate",
    "DFedPGP": "DFedPGP, as its code",
}
"""Rows that are shown and not compared, and the rows of the protocol's addenda that are compared
instead.
"""
ADDED = (*REPLACED.values(), "FedAvg + FT, tuned rate")
"""Rows that are not in the frozen protocol: its addenda came after the first recipe had run."""
ADDED_COLUMNS = ("har-persons",)
"""Recipes that are not in the frozen protocol."""
PRINTED = ", as printed"
"""Suffix of the rows with the values of the method's paper."""
RUN, BLOCK = ["row", "column", "seed"], ["column", "seed"]
SHARE_OF_BEST = 0.9
COST_TOLERANCE = 1.01
"""Costs within one per cent of each other count as equal."""
KIB = 1024


class Board:
    """The trials that validation chose, as far as all trials of a row have been made: another trial
    may change a study's winner.
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, cells, self.trials = evidence, evidence.cells, evidence.trials()
        labels = cells.drop_duplicates("column").set_index("column")["column_label"]
        self.columns: dict[str, str] = {str(key): str(label) for key, label in labels.items()}
        printed = cells["row"].str.endswith(PRINTED)
        self.cells, self.printed_cells = cells[~printed], cells[printed]
        rows = [str(row) for row in dict.fromkeys(self.cells["row"])]
        self.rows = tuple(row for row in rows if row not in REPLACED)
        self.replaced = tuple(row for row in rows if row in REPLACED)
        missing = self.trials.loc[self.trials["status"] == "missing", ["row", "column"]]
        self.incomplete = set(missing.itertuples(index=False, name=None))
        open_ = {column for row, column in self.incomplete if row not in REPLACED}
        self.complete = {key: label for key, label in self.columns.items() if key not in open_}
        frozen = {k: name for k, name in self.complete.items() if k not in ADDED_COLUMNS}
        self.shown = frozen or self.columns
        """The recipes that ranks and means are over: complete ones of the frozen protocol."""

    @cached_property
    def runs(self) -> pd.DataFrame:
        """The runs of `runs`; of rows and recipes with missing trials none, since means over some
        studies are not comparable with means over all.
        """
        made = runs(self.evidence, self.cells)
        places = zip(made["row"], made["column"], strict=True)
        return made.loc[[place not in self.incomplete for place in places]]

    @cached_property
    def compared(self) -> pd.DataFrame:
        """The runs of compared rows."""
        return self.runs[~self.runs["row"].isin(REPLACED)]

    @cached_property
    def frozen(self) -> pd.DataFrame:
        """The runs of the frozen protocol, without its addenda."""
        own = ~self.runs["column"].isin(ADDED_COLUMNS) & ~self.runs["row"].isin(ADDED)
        return self.runs[own]

    @cached_property
    def printed(self) -> pd.DataFrame:
        """The accuracies of the rows as printed, under their methods' names."""
        done = self.printed_cells[self.printed_cells["status"] == "done"]
        row = done["row"].str.removesuffix(PRINTED)
        return done.assign(row=row, value=100 * done["accuracy"])[[*RUN, "value"]]

    def ranked(self, runs: pd.DataFrame) -> pd.DataFrame:
        """Return the runs of the recipes that ranks are over."""
        return runs[runs["column"].isin(list(self.shown))]

    def mean(self, name: str, runs: pd.DataFrame | None = None) -> pd.Series:
        """Return the mean of every row over studies, then over recipes; only of rows that have a
        value in all of them.
        """
        runs = self.compared if runs is None else runs
        return self.over(runs.groupby(["row", "column"])[name].mean())

    def over(self, values: pd.Series) -> pd.Series:
        """Return means over recipes of values by row and column."""
        wide = values.unstack().reindex(columns=list(self.shown))
        return wide.mean(axis="columns", skipna=False)

    def means(self, column: str, name: str = "value") -> pd.DataFrame:
        """Return the means of rows in a recipe."""
        return means(of(column, self.runs), name, self.replaced)

    @property
    def order(self) -> list[str]:
        """The compared rows, the best rank first; then those without one, the best mean first."""
        ranks = mean_ranks(self.ranked(self.compared)).dropna().sort_values(kind="stable")
        means = self.compared.groupby("row")["value"].mean().drop(ranks.index)
        return [*map(str, ranks.index), *map(str, means.sort_values(ascending=False).index)]


def of(column: str, runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of a recipe."""
    return runs[runs["column"] == column]


def runs(evidence: Evidence, cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per finished run: accuracies in percent, and costs per client and round."""
    done = cells[cells["status"] == "done"]
    names = ["bytes", "recipe.training.rounds", "work.multiply_adds", "work.clients", "work.rounds"]
    names += ["seconds", "peak_memory"]
    known = done.reindex(columns=names).apply(pd.to_numeric, errors="coerce")
    clients = clients_of(evidence, done)
    accuracies = clients.groupby("id")["accuracy"]
    visits = known["recipe.training.rounds"] * done["id"].map(accuracies.size())
    curves = evidence.rounds(list(done["id"]), "post_agg/val/mean", "pre_agg/val/mean")
    made = done[[*RUN, "id"]].assign(
        value=100 * done["accuracy"],
        decile=done["id"].map(accuracies.quantile(0.1)),
        newcomers=scores(done, "newcomers", "last"),
        traffic=known["bytes"] / visits / KIB,
        work=known["work.multiply_adds"] / known["work.clients"] / known["work.rounds"] / 1e6,
        seconds=known["seconds"],
        memory=known["peak_memory"] / KIB**2,
        rounds=done["id"].map(rounds_to(curves)),
    )
    return made.merge(harm(clients), on=RUN, how="left")


def clients_of(evidence: Evidence, done: pd.DataFrame) -> pd.DataFrame:
    """Return a row per client of every run: accuracy in percent."""
    counts = evidence.clients(list(done["id"])).merge(done[["id", *RUN]], on="id")
    return counts.assign(accuracy=100 * counts["correct"] / counts["total"])


def harm(clients: pd.DataFrame) -> pd.DataFrame:
    """Return the clients below their own local model, tuned alike, in the same study. By run:
    `harm`, their share of all clients in percent, and `loss`, what they lose, as a mean over all
    clients; no row if a study has no local models.
    """
    local = clients.loc[clients["row"] == ALONE, [*BLOCK, "client", "accuracy"]]
    both = clients[clients["row"] != ALONE].merge(
        local, on=[*BLOCK, "client"], suffixes=("", "_alone")
    )
    lost = (both["accuracy_alone"] - both["accuracy"]).clip(lower=0)
    by_run = both.assign(harm=100.0 * (lost > 0), loss=lost).groupby(RUN)[["harm", "loss"]]
    return by_run.mean().reset_index()


def mean_loss(runs: pd.DataFrame) -> pd.Series:
    """Return by row what a harmed client loses, over all studies of a recipe."""
    total = runs.groupby("row")[["harm", "loss"]].sum(min_count=1)
    return (100 * total["loss"] / total["harm"]).where(total["harm"] != 0, total["loss"])


def better_off(clients: pd.DataFrame, reference: str) -> pd.Series:
    """Return the share of clients in percent that are better off with a row than with another one;
    equal accuracies count half. Every study weighs the same.
    """
    wide = clients.pivot(index=[*BLOCK, "client"], columns="row", values="accuracy")
    gaps = wide.drop(columns=reference).sub(wide[reference], axis="index")
    wins = ((gaps > 0) + 0.5 * (gaps == 0)).where(gaps.notna())
    return 100 * wins.groupby(BLOCK).mean().mean()


def rounds_to(curves: pd.DataFrame) -> pd.Series:
    """Return by run the first scored round in which its curve reaches a share of its own best."""
    best = curves.groupby("id")["value"].transform("max")
    reached = curves[(best > 0) & (curves["value"] >= SHARE_OF_BEST * best)]
    return reached.groupby("id")["round"].min()


def spread_of_trials(trials: pd.DataFrame) -> pd.Series:
    """Return by row and column the range of validation accuracy over finished trials, as the mean
    over studies; NaN if trials are missing.
    """
    keys = [trials[name] for name in RUN]
    complete = trials["status"].ne("missing").groupby(keys[:2]).transform("all")
    grouped = trials["validation"].where(complete & (trials["status"] == "done")).groupby(keys)
    return (grouped.max() - grouped.min()).groupby(["row", "column"]).mean()


def means(runs: pd.DataFrame, name: str, apart: Collection[str] = ()) -> pd.DataFrame:
    """Return by row of one recipe: mean over studies, half of its 95 % interval without effects
    that are common to all rows of a study, and every study's value; rows `apart` have no interval.
    """
    wide = runs.pivot(index="row", columns="seed", values=name)
    stats = pairs([wide[~wide.index.isin(apart)]])
    table = pd.DataFrame({"mean": wide.mean(axis="columns", skipna=False)})
    studies = {row: _by_seed(each.dropna()) for row, each in wide.iterrows()}
    return table.assign(half=stats.half_widths, by_seed=pd.Series(studies, dtype=object))


def _by_seed(values: pd.Series) -> tuple[SeedResult, ...]:
    return tuple(SeedResult(int(str(seed)), float(value)) for seed, value in values.items())


def differences(runs: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Return by row of one recipe the difference to another row, and half of its 95 % interval,
    which holds for all pairs of rows at once (Games-Howell).
    """
    wide = runs.pivot(index="row", columns="seed", values="value")
    stats, means = pairs([wide]), wide.mean(axis="columns", skipna=False)
    gaps = means.drop(reference, errors="ignore") - means.get(reference, nan)
    limits = {row: stats.critical_difference(str(row), reference) for row in gaps.index}
    return pd.DataFrame({"mean": gaps, "half": pd.Series(limits, dtype=float)})


def near_first(runs: pd.DataFrame) -> pd.Series:
    """Return by row of one recipe whether it is the first one, or not significantly different."""
    ranked = means(runs, "value")["mean"].dropna()
    if ranked.empty:
        return pd.Series(dtype=bool)
    gaps = differences(runs, str(ranked.idxmax()))
    return ~(gaps["mean"].abs() >= gaps["half"]).reindex(ranked.index, fill_value=False)


def gains(tuned: pd.DataFrame, printed: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return by row what tuning adds in a recipe, from differences between two runs of a study:
    mean, and half of its interval.
    """
    values = [of(column, runs).set_index(["row", "seed"])["value"] for runs in (tuned, printed)]
    gaps = (values[0] - values[1]).dropna().groupby("row")
    noise = pd.DataFrame({"variance": gaps.var(ddof=1), "df": gaps.size() - 1.0}).dropna()
    table = pd.DataFrame({"mean": gaps.mean(), "half": nan})
    if len(noise):
        stats = Pairs(floored(noise["variance"], noise["df"]), int(gaps.size().max()))
        table["half"] = stats.half_widths
    return table


def wide_scores(runs: pd.DataFrame) -> pd.DataFrame:
    """Return accuracies [row, (column, study)]."""
    return runs.pivot(index="row", columns=BLOCK, values="value")


def mean_ranks(runs: pd.DataFrame) -> pd.Series:
    """Return average ranks over the studies that all rows have."""
    return rank_statistics.average_ranks(wide_scores(runs))


def critical_rank_difference(runs: pd.DataFrame) -> float:
    """Return Nemenyi's critical difference of two average ranks at 5 %."""
    wide = wide_scores(runs)
    rows, blocks = len(wide), wide.dropna(axis="columns").shape[1]
    if not blocks or rows < 2:
        return nan
    return studentized_range(rows, np.inf) * sqrt(rows * (rows + 1) / (12 * blocks))


def overall(runs: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """Return the row that ranks first on average, and by row: rank, place, the difference to that
    one, its p value, and whether it is `near`, not significant; empty if no study has all rows.
    """
    ranks = mean_ranks(runs)
    if not ranks.notna().any():
        return "", pd.DataFrame(columns=["rank", "place", "difference", "p", "near"])
    first = str(ranks.idxmin())
    differences = against_leader(wide_scores(runs), first).reindex(ranks.index)
    near = ~(differences["p"] < 1 - LEVEL)
    return first, differences.assign(rank=ranks, place=ranks.rank(method="min"), near=near)


def pareto_front(accuracy: pd.Series, cost: pd.Series) -> list[str]:
    """Return the rows that no other beats in accuracy at the same cost or less, the cheapest first;
    costs within the tolerance count as equal.
    """
    rows = pd.DataFrame({"accuracy": accuracy, "cost": cost}, dtype=float).dropna()
    rows = rows.sort_values(["cost", "accuracy"], ascending=[True, False], kind="stable")
    best = [rows.loc[rows["cost"] <= COST_TOLERANCE * c, "accuracy"].max() for c in rows["cost"]]
    before = rows["accuracy"].cummax().shift(fill_value=-np.inf)
    front = (rows["accuracy"] > before) & (rows["accuracy"] >= best)
    return [str(row) for row in rows.index[front]]
