"""The board's runs, as the tables that `analysis` needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.board import analysis
from repfl.paper_tables.board.analysis import MethodMeans
from repfl.paper_tables.core.drawing import captions
from repfl.paper_tables.core.evidence import Evidence
from repfl.paper_tables.core.result import Column

ALONE = "Local"
"""The row of local training: harm is measured against it."""
COMMON, TUNED = "FedAvg", "FedAvg + FT"
"""One model for all clients, and the same one fine-tuned by each: what there is without a method
made for personal models.
"""
APART = {
    "pFedSD": "pFedSD, before aggregation",
    "Star-PFL": "Star-PFL, before aggregation",
    "FedBABU": "FedBABU, tuned rate",
    "DFedPGP": "DFedPGP, as its code",
}
"""Rows that are shown and not compared, and the rows of the protocol's addenda that are compared
instead.
"""
WIDER = ("FedAvg + FT, tuned rate", "FedBABU, tuned rate")
"""Rows of the second addendum that also search a learning rate for fine-tuning."""
ADDED = tuple(dict.fromkeys((*APART.values(), *WIDER)))
"""Rows that are not in the frozen protocol: its addenda came after the first recipe had run."""
ADDED_COLUMNS = ("har-persons",)
"""Recipes that are not in the frozen protocol."""
PRINTED = ", as printed"
"""Suffix of the rows with the values of the method's paper."""
KIB = 1024
LINES = ("up_values", "up_codes", "down_values", "down_codes")


class View:
    """The searched rows of an artefact, with the trial that validation chose in each study."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, cells = evidence, evidence.cells
        self.cells = cells[~cells["row"].str.endswith(PRINTED)]
        self.done = self.cells[self.cells["status"] == "done"]
        rows = dict.fromkeys(self.cells["row"])
        self.apart = tuple(name for name in rows if name in APART)
        self.methods = tuple(name for name in rows if name not in APART)
        labels = cells.drop_duplicates("column").set_index("column")["column_label"]
        self.columns: dict[str, str] = {str(key): str(label) for key, label in labels.items()}

    @cached_property
    def missing(self) -> dict[str, list[str]]:
        """By column, the methods with missing trials: they have no score there yet."""
        return {
            key: [name for name in self.methods if (name, key) in self._incomplete]
            for key in self.columns
        }

    @cached_property
    def _incomplete(self) -> set[tuple[str, str]]:
        """Methods and columns with missing trials."""
        trials = self.trials[self.trials["status"] == "missing"]
        return set(zip(trials["method"], trials["column"], strict=True))

    @cached_property
    def complete(self) -> dict[str, str]:
        """The columns in which every method has made its last trial."""
        return {key: label for key, label in self.columns.items() if not self.missing[key]}

    @property
    def shown(self) -> dict[str, str]:
        """The columns that means are over: those of the protocol that are complete, or all if none
        is. Recipes that an addendum added are shown apart.
        """
        frozen = {k: label for k, label in self.complete.items() if k not in ADDED_COLUMNS}
        return frozen or self.columns

    @property
    def guests(self) -> tuple[str, ...]:
        """Methods that were planned for recipes of addenda alone, the best ones first."""
        own = self.cells[~self.cells["column"].isin(ADDED_COLUMNS)]
        values = self.scores.groupby("method")["value"].mean()
        names = [name for name in self.methods if name not in set(own["row"])]
        return tuple(sorted(names, key=lambda name: -values.get(name, 0.0)))

    @cached_property
    def shown_scores(self) -> pd.DataFrame:
        """One row per method, column and study: the chosen trial's accuracies in percent, its harm
        and its costs. Methods with missing trials are left out of a column, since means over some
        studies are not comparable with means over all.
        """
        harm = analysis.harm_by_cell(self.clients, ALONE)
        scores = self._lines(self.done).merge(harm, on=analysis.RUN_KEYS, how="left")
        keys = zip(scores["method"], scores["column"], strict=True)
        complete = [key not in self._incomplete for key in keys]
        return scores.loc[complete]  # without `loc`, an empty list selects no columns

    @cached_property
    def scores(self) -> pd.DataFrame:
        """The scores of the methods that are compared."""
        return self.shown_scores[~self.shown_scores["method"].isin(APART)]

    @cached_property
    def frozen(self) -> pd.DataFrame:
        """The scores of the methods and recipes of the frozen protocol, without its addenda."""
        scores = self.shown_scores[~self.shown_scores["column"].isin(ADDED_COLUMNS)]
        return scores[~scores["method"].isin(ADDED)]

    @property
    def compared(self) -> pd.DataFrame:
        """The scores in the columns that means are over: all methods have the same blocks there."""
        return self.scores[self.scores["column"].isin(list(self.shown))]

    @cached_property
    def printed(self) -> pd.DataFrame:
        """The scores of the rows as printed, under their methods' names."""
        cells = self.evidence.cells
        done = cells[cells["row"].str.endswith(PRINTED) & (cells["status"] == "done")]
        return self._lines(done.assign(row=done["row"].str.removesuffix(PRINTED)))

    @cached_property
    def missing_printed(self) -> set[str]:
        """The columns in which runs as printed are missing."""
        cells = self.evidence.cells
        missing = cells["row"].str.endswith(PRINTED) & (cells["status"] == "missing")
        return set(cells.loc[missing, "column"])

    def _lines(self, cells: pd.DataFrame) -> pd.DataFrame:
        lines = [self._line(cell) for cell in cells.to_dict("records")]
        return pd.DataFrame(lines, columns=list(LINE))

    def _line(self, cell: Mapping[Any, Any]) -> dict[str, Any]:
        accuracies = self._accuracies[cell["id"]]
        traffic = sum(float(cell.get(f"traffic.{line}", nan)) for line in LINES)
        visits = int(cell["recipe.training.rounds"]) * len(accuracies)
        return {
            "method": cell["row"],
            "column": cell["column"],
            "study": cell["seed"],
            "id": cell["id"],
            "value": 100 * float(cell["accuracy"]),
            "decile": float(accuracies.quantile(0.1)),
            "newcomers": _newcomers(cell),
            "traffic": traffic / visits / KIB if visits else nan,
            "work": _work(cell),
            "seconds": _number(cell.get("seconds")),
            "memory": _number(cell.get("peak_memory")) / KIB**2,
            "rounds": analysis.rounds_to(self._curves[cell["id"]]),
        }

    @cached_property
    def _curves(self) -> dict[str, pd.Series]:
        """Validation accuracy by round of every finished run, at the point where it is scored."""
        cells = self.evidence.cells
        done = list(cells.loc[cells["status"] == "done", "id"])
        rounds = self.evidence.rounds(done, "post_agg/val/mean", "pre_agg/val/mean")
        return _by_cell(rounds.set_index("round"), "value")

    @cached_property
    def _accuracies(self) -> dict[str, pd.Series]:
        """Clients' accuracies by cell."""
        return _by_cell(self.clients, "accuracy")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per method, column, study and client: accuracy in percent."""
        cells = self.evidence.cells
        done = cells[cells["status"] == "done"]
        keys = done[["id", "row", "column", "seed"]]
        keys = keys.rename(columns={"row": "method", "seed": "study"})
        counts = self.evidence.clients(list(done["id"])).merge(keys, on="id")
        return counts.assign(accuracy=100 * counts["correct"] / counts["total"])

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row per trial, chosen or not."""
        return self.evidence.trials().rename(columns={"row": "method", "seed": "study"})

    def caption(self, subject: str) -> str:
        """Return the caption: what is shown, and of which runs."""
        size = "Full size" if self.evidence.scale == "paper" else "Self-test"
        return captions.caption(self.evidence, subject, floor=False, accuracy=False, size=size)

    def of(self, method: str, column: str) -> pd.DataFrame:
        """Return the chosen cells of a method in a column; in all columns that means are over, if
        `column` is none.
        """
        if column in self.columns:
            return self._cells_by_row.get((method, column), self.cells[:0])
        cells = self.cells[self.cells["row"] == method]
        return cells[cells["column"].isin(list(self.shown))]

    @cached_property
    def _cells_by_row(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The planned cells by method and column, since selecting them one by one is slow."""
        groups = self.cells.groupby(["row", "column"], sort=False)
        return {(str(row), str(column)): cells for (row, column), cells in groups}

    def mean(self, name: str, scores: pd.DataFrame | None = None) -> pd.Series:
        """Return a number for every method: the mean over studies, then over columns."""
        table = self.scores if scores is None else scores
        return self.over(table.groupby(["method", "column"])[name].mean())

    def over(self, values: pd.Series) -> pd.Series:
        """Return the mean over columns; only of methods that have a value in all of them."""
        wide = values.unstack().reindex(columns=list(self.shown))
        return wide.mean(axis="columns", skipna=False)

    def method_means(self, column: str, name: str = "value") -> MethodMeans:
        """Return the means of methods in a column. Rows that are not compared have a mean as well;
        intervals and comparisons are of the others.
        """
        shown = analysis.method_means(self.shown_scores, column, name)
        return replace(analysis.method_means(self.scores, column, name), means=shown.means)

    def under(self, key: str, **options: Any) -> tuple[Column, ...]:
        """Return one table column per recipe."""
        return tuple(
            self.best(Column(f"{column}/{key}", label, **options))
            for column, label in self.columns.items()
        )

    def best(self, column: Column) -> Column:
        """Return a table column; without a winner if some methods have no score."""
        complete = column.key.partition("/")[0] in self.shown | self.complete
        return column if complete else replace(column, best=None)


LINE = (
    "method", "column", "study", "id", "value", "decile", "newcomers",
    "traffic", "work", "seconds", "memory", "rounds",
)  # fmt: skip


def _by_cell(frame: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    return {str(cell): values for cell, values in frame.groupby("id")[name]}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else nan


def _work(cell: Mapping[Any, Any]) -> float:
    """Return millions of multiply-adds per client and round; NaN if they were not counted."""
    total, clients, rounds = (
        _number(cell.get(f"work.{name}")) for name in ("multiply_adds", "clients", "rounds")
    )
    return total / clients / rounds / 1e6


def _newcomers(cell: Mapping[Any, Any]) -> float:
    """Return the mean accuracy of the unseen clients; NaN if there are none."""
    points = cell["metrics"].get("points", {})
    last = (points.get("newcomers") or {}).get("last") or {}
    return 100 * float(last.get("mean", nan))
