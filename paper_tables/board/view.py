"""What is known of the board's runs, as the tables that `analysis` asks for."""

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
"""The row whose clients train alone: what harm is measured by."""
COMMON, TUNED = "FedAvg", "FedAvg + FT"
"""One model for all clients, and the same one fine-tuned by each: what there is without a method
made for personal models.
"""
APART = {
    "pFedSD": "pFedSD, before aggregation",
    "Star-PFL": "Star-PFL, before aggregation",
    "FedBABU": "FedBABU, own rate",
    "DFedPGP": "DFedPGP, as its code",
}
"""Rows that are shown and not compared, and those of the protocol's addenda that are compared in
their place.
"""
WIDER = ("FedAvg + FT, own rate", "FedBABU, own rate")
"""Rows of the second addendum that also search a learning rate of fine-tuning."""
ADDED = tuple(dict.fromkeys((*APART.values(), *WIDER)))
"""Rows that the frozen protocol does not have: its addenda came after the first recipe had run."""
PRINTED = ", as printed"
"""Ends the rows with the values of the method's paper."""
KIB = 1024
LINES = ("up_values", "up_codes", "down_values", "down_codes")


class View:
    """The searched rows of an artefact, with the trial of each study that validation chose."""

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
        """By column, the methods that have trials to make: they have no score there yet."""
        return {
            key: [name for name in self.methods if (name, key) in self._open]
            for key in self.columns
        }

    @cached_property
    def _open(self) -> set[tuple[str, str]]:
        """Methods and columns that have trials to make."""
        trials = self.trials[self.trials["status"] == "missing"]
        return set(zip(trials["method"], trials["column"], strict=True))

    @cached_property
    def spoken(self) -> dict[str, str]:
        """The columns that can be spoken of: every method has made its last trial there."""
        return {key: label for key, label in self.columns.items() if not self.missing[key]}

    @property
    def shown(self) -> dict[str, str]:
        """What is told over columns is told over these: those that can be spoken of, if any."""
        return self.spoken or self.columns

    @cached_property
    def shown_scores(self) -> pd.DataFrame:
        """One row per method, column and study: the chosen trial's accuracies in percent, whom it
        harms, and what it cost; of a method whose every trial is made, since its mean over some of
        the studies would stand beside others' over all.
        """
        harmed = analysis.harm(self.clients, ALONE)
        found = self._lines(self.done).merge(harmed, on=analysis.PLACE, how="left")
        places = zip(found["method"], found["column"], strict=True)
        whole = [place not in self._open for place in places]
        return found.loc[whole]  # without `loc`, an empty list asks for no columns

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Those of the methods that are compared."""
        return self.shown_scores[~self.shown_scores["method"].isin(APART)]

    @cached_property
    def frozen(self) -> pd.DataFrame:
        """Those of the methods of the frozen protocol, without what its addenda add."""
        return self.shown_scores[~self.shown_scores["method"].isin(ADDED)]

    @property
    def compared(self) -> pd.DataFrame:
        """The same in the columns that are told over: methods have the same blocks there."""
        return self.scores[self.scores["column"].isin(list(self.shown))]

    @cached_property
    def printed(self) -> pd.DataFrame:
        """The same of the rows as printed, under their methods' names."""
        cells = self.evidence.cells
        mine = cells[cells["row"].str.endswith(PRINTED) & (cells["status"] == "done")]
        return self._lines(mine.assign(row=mine["row"].str.removesuffix(PRINTED)))

    @cached_property
    def unprinted(self) -> set[str]:
        """The columns that have runs as printed to make."""
        cells = self.evidence.cells
        waits = cells["row"].str.endswith(PRINTED) & (cells["status"] == "missing")
        return set(cells.loc[waits, "column"])

    def _lines(self, cells: pd.DataFrame) -> pd.DataFrame:
        lines = [self._line(cell) for cell in cells.to_dict("records")]
        return pd.DataFrame(lines, columns=list(LINE))

    def _line(self, cell: Mapping[Any, Any]) -> dict[str, Any]:
        here = self._reached[cell["id"]]
        sent = sum(float(cell.get(f"traffic.{line}", nan)) for line in LINES)
        visits = int(cell["recipe.training.rounds"]) * len(here)
        return {
            "method": cell["row"],
            "column": cell["column"],
            "study": cell["seed"],
            "id": cell["id"],
            "value": 100 * float(cell["value"]),
            "decile": float(here.quantile(0.1)),
            "newcomers": _newcomers(cell),
            "traffic": sent / visits / KIB if visits else nan,
            "work": _work(cell),
            "seconds": _number(cell.get("seconds")),
            "memory": _number(cell.get("peak_memory")) / KIB**2,
            "rounds": analysis.rounds_to(self._curves[cell["id"]]),
        }

    @cached_property
    def _curves(self) -> dict[str, pd.Series]:
        """Validation accuracy by round of everything that is done, at the one point where each is
        scored.
        """
        cells = self.evidence.cells
        done = list(cells.loc[cells["status"] == "done", "id"])
        found = self.evidence.rounds(done, "post_agg/val/mean", "pre_agg/val/mean")
        return _by_cell(found.set_index("round"), "value")

    @cached_property
    def _reached(self) -> dict[str, pd.Series]:
        """Clients' accuracies by cell."""
        return _by_cell(self.clients, "accuracy")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """One row per method, column, study and client: accuracy in percent."""
        cells = self.evidence.cells
        done = cells[cells["status"] == "done"]
        places = done[["id", "row", "column", "seed"]]
        places = places.rename(columns={"row": "method", "seed": "study"})
        found = self.evidence.clients(list(done["id"])).merge(places, on="id")
        return found.assign(accuracy=100 * found["correct"] / found["total"])

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row per trial, chosen or not."""
        return self.evidence.trials().rename(columns={"row": "method", "seed": "study"})

    def caption(self, what: str) -> str:
        """What is shown, and of which runs."""
        size = "Full size" if self.evidence.scale == "paper" else "Self-test"
        return captions.caption(self.evidence, what, floor=False, accuracy=False, size=size)

    def of(self, method: str, column: str) -> pd.DataFrame:
        """The planned cells of a place, chosen; of all places that are told over, where it is
        none.
        """
        if column in self.columns:
            return self._by_place.get((method, column), self.cells[:0])
        mine = self.cells[self.cells["row"] == method]
        return mine[mine["column"].isin(list(self.shown))]

    @cached_property
    def _by_place(self) -> dict[tuple[str, str], pd.DataFrame]:
        """The planned cells by method and column: to select them once for each costs far more."""
        places = self.cells.groupby(["row", "column"], sort=False)
        return {(str(row), str(column)): mine for (row, column), mine in places}

    def mean(self, name: str, scores: pd.DataFrame | None = None) -> pd.Series:
        """A number of every method: mean over studies, then over columns."""
        known = self.scores if scores is None else scores
        return self.over(known.groupby(["method", "column"])[name].mean())

    def over(self, values: pd.Series) -> pd.Series:
        """The mean over columns of what methods have in each; only of those that have it in all."""
        wide = values.unstack().reindex(columns=list(self.shown))
        return wide.mean(axis="columns", skipna=False)

    def method_means(self, column: str, name: str = "value") -> MethodMeans:
        """How methods stand in a column. Those apart have a mean there as well; the interval and
        what is told apart are of the others.
        """
        shown = analysis.method_means(self.shown_scores, column, name)
        return replace(analysis.method_means(self.scores, column, name), means=shown.means)

    def under(self, key: str, **options: Any) -> tuple[Column, ...]:
        """One table column per recipe."""
        return tuple(
            self.best(Column(f"{column}/{key}", label, **options))
            for column, label in self.columns.items()
        )

    def best(self, column: Column) -> Column:
        """A table column; without a winner where some methods have no score."""
        spoken = column.key.partition("/")[0] in self.shown
        return column if spoken else replace(column, best=None)


LINE = (
    "method", "column", "study", "id", "value", "decile", "newcomers",
    "traffic", "work", "seconds", "memory", "rounds",
)  # fmt: skip


def _by_cell(frame: pd.DataFrame, name: str) -> dict[str, pd.Series]:
    return {str(cell): values for cell, values in frame.groupby("id")[name]}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else nan


def _work(cell: Mapping[Any, Any]) -> float:
    """Millions of multiply-adds per client and round; nothing of lines that counted one round."""
    total, clients, rounds = (
        _number(cell.get(f"work.{name}")) for name in ("multiply_adds", "clients", "rounds")
    )
    return total / clients / rounds / 1e6


def _newcomers(cell: Mapping[Any, Any]) -> float:
    """Mean accuracy of the clients that joined late; nan where that has no meaning."""
    points = cell["metrics"].get("points", {})
    found = (points.get("newcomers") or {}).get("last") or {}
    return 100 * float(found.get("mean", nan))
