"""Accuracy tables: published beside ours, with a verdict, the floor and an ordering check per
column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import our_numbers
from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.evidence import Evidence, places, values_of
from repfl.paper_tables.core.result import CELL_FIELDS, Column, TableLayout
from repfl.paper_tables.core.statistics.seeds import common_floor, mixed
from repfl.paper_tables.core.statistics.verdict import (
    EXACT,
    UNJUDGED,
    Kind,
    Printing,
    Runs,
    at_floor,
    judge,
)

FLOOR = "predicting each client's most frequent training class"
AT_FLOOR, BEST_ROUND = "at the floor", "best round on test"


@dataclass(frozen=True)
class Row:
    """One line of a table: where its numbers come from."""

    label: str
    published: str | None = None
    """The name in the published csv; None: the label; empty: the paper has no such row."""
    source: str = ""
    """The row of the grid; empty: the label."""
    point: str | None = None
    """Another scoring point of the same runs than the one the recipe reports."""
    rule: str | None = None
    """Another rule than the recipe's: last, max or best-val."""
    recipes: Mapping[str, str] = field(default_factory=dict)
    """Recipes of the grid that replace the column's own, by column."""
    only: tuple[str, ...] = ()
    """The columns of this row; empty: all."""
    setting: str | None = None
    """The setting of this row in the csv; None: the column's."""
    aside: bool = False
    """Whether it is a variant of ours that is not in the paper."""

    @property
    def printed(self) -> str:
        return self.label if self.published is None else self.published


@dataclass(frozen=True)
class Place:
    """Where the published numbers of a column are in the csv."""

    dataset: str
    setting: str
    metric: str = ""


def published_row(
    published: pd.DataFrame, table: str, place: Place, method: str
) -> pd.Series | None:
    """Return the one published number at a place of a table; None if there is none."""
    key = {
        "method": method,
        "table": table,
        "dataset": place.dataset,
        "setting": place.setting,
        **({"metric": place.metric} if place.metric else {}),
    }
    rows = zip(*(values_of(published, name) for name in key), strict=True)
    values = tuple(key.values())
    index = next((index for index, row in enumerate(rows) if row == values), None)
    return None if index is None else published.iloc[index]


def printed_fields(published: pd.Series | None) -> dict[str, Any]:
    """Return the paper's side of a table cell."""
    if published is None:
        return {"printed": nan, "printed_std": nan, "printed_as": "", "source": ""}
    return {
        "printed": published["value"],
        "printed_std": published["std"],
        "printed_as": published["mean"],
        "source": published["source"],
    }


NO_VERDICT = {
    "difference": nan,
    "difference_low": nan,
    "difference_high": nan,
    "verdict": None,
    "kind": "",
    "mark": "",
    "basis": "",
}


def conclude(
    cell: dict[str, Any],
    unit: str,
    kind: Kind = Kind.TRAINED,
    *,
    rounding: float = 0.0,
    printing: Printing | None = None,
    why_incomparable: str = "",
) -> dict[str, Any]:
    """Return a table cell with its difference and verdict, if it has a published number.
    `why_incomparable` says why the two sides cannot be compared.
    """
    cell = {**cell, **NO_VERDICT}
    if not cell["source"] or not isfinite(cell["printed"]):
        return cell
    printing = printing or Printing()
    ours = Runs(cell["ours"], cell["std"], max(1, cell["seeds"]))
    why_incomparable = why_incomparable or _other_rule(printing.rule, cell.get("rule", ""))

    judgement = judge(
        printing.side(cell["printed"], cell["printed_std"]),
        ours,
        kind=kind,
        scale=cell["scale"],
        unit=unit,
        borrowed=cell.get("borrowed"),
        rounding=rounding,
        why_incomparable=why_incomparable,
    )
    compared = judgement.verdict not in UNJUDGED
    return cell | {
        "difference": cell["ours"] - cell["printed"] if compared else nan,
        "difference_low": judgement.low,
        "difference_high": judgement.high,
        "verdict": str(judgement.verdict),
        "kind": str(kind),
        "mark": _mark(cell, printing) if compared else "",
        "basis": judgement.basis,
    }


def _other_rule(printed: str, ours: str) -> str:
    """Return why two numbers are not compared if their rounds were picked by different rules."""
    words = {
        "max": "the best round on the test images",
        "last": "the last round",
        "best-val": "the best round on validation images",
    }
    return (
        f"the paper's is {words[printed]}, ours {words[ours]}"
        if printed and ours and printed != ours
        else ""
    )


def _mark(cell: dict[str, Any], printing: Printing) -> str:
    """Return the mark beside the verdict."""
    # one model for all clients is not compared with a constant of each client's own
    individual = cell["scale"] == "paper" and not cell.get("one_model")
    at_the_floor = individual and at_floor(cell["printed"], cell["floor"])
    best_round = printing.rule == cell.get("rule", "") == "max"
    return "; ".join(
        mark for mark, applies in ((AT_FLOOR, at_the_floor), (BEST_ROUND, best_round)) if applies
    )


def accuracy_frame(
    evidence: Evidence,
    table: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    printed: Mapping[str, Place],
    printing: Printing | None = None,
    kind: Kind = Kind.TRAINED,
) -> pd.DataFrame:
    """Return the long form of an accuracy table; `printing` describes the runs behind the paper's
    numbers.
    """
    cells, planned_at, no_cells = [], places(evidence), evidence.cells.iloc[:0]
    for row in rows:
        for column in columns:
            if row.only and column.key not in row.only:
                continue
            place = place_of(row, column, printed)
            published = (
                published_row(evidence.published, table, place, row.printed)
                if row.printed
                else None
            )
            planned = planned_at.get(
                (row.source or row.label, row.recipes.get(column.key, column.key)), no_cells
            )
            if published is None and planned.empty:
                continue
            cell = {
                "row": row.label,
                "column": column.key,
                **printed_fields(published),
                **our_numbers.measure(evidence, planned, row.point, row.rule),
            }
            cells.append(conclude(cell, column.unit, kind, printing=printing))
    return pd.DataFrame(cells, columns=list(CELL_FIELDS))


def place_of(row: Row, column: Column, places: Mapping[str, Place]) -> Place:
    """Return where the published number of a row and a column stands."""
    if column.key not in places:
        raise PaperError(f"column {column.key!r} has no place; valid: {', '.join(places)}")
    place = places[column.key]
    return place if row.setting is None else replace(place, setting=row.setting)


def requested_numbers(
    table: str, rows: Sequence[Row], columns: Sequence[Column], places: Mapping[str, Place]
) -> frozenset[tuple[str, ...]]:
    """Return the table, dataset, setting and method of every published number that is looked up."""
    requests = [
        (row, place_of(row, column, places))
        for row in rows
        for column in columns
        if row.printed and column.key in (row.only or (column.key,))
    ]
    return frozenset((table, place.dataset, place.setting, row.printed) for row, place in requests)


def lines_frame(evidence: Evidence, rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """Return the accuracies of a figure's lines as a long table without published numbers."""
    planned, no_cells = places(evidence), evidence.cells.iloc[:0]
    cells = [
        {
            "row": row,
            "column": column,
            **printed_fields(None),
            **our_numbers.measure(evidence, planned.get((row, column), no_cells)),
        }
        for column in columns
        for row in rows
    ]
    return pd.DataFrame(cells, columns=list(CELL_FIELDS))


def with_further_rows(rows: Sequence[Row], evidence: Evidence) -> tuple[Row, ...]:
    """Return the paper's rows, the grid's further rows, which stand aside, and a row for every
    method that a user adds.
    """
    known, cells = {row.source or row.label for row in rows}, evidence.cells
    guests = dict(zip(cells["row"], values_of(cells, "guest", ""), strict=True))
    further = (
        Row(label, published="", aside=not guest)
        for label, guest in guests.items()
        if label not in known
    )
    return (*rows, *further)


def layout_of(
    frame: pd.DataFrame, rows: Sequence[Row], columns: Sequence[Column], **options: Any
) -> TableLayout:
    """Return the layout: the rows that have anything to show, in their order."""
    shown = set(frame["row"])
    competing = tuple(r.label for r in rows if r.label in shown and not r.aside)
    aside = tuple(r.label for r in rows if r.label in shown and r.aside)
    return TableLayout((*competing, *aside), tuple(columns), aside=aside, **options)


def done_ids(evidence: Evidence) -> tuple[str, ...]:
    """Return the ids of an artefact's finished cells, each once."""
    return tuple(dict.fromkeys(evidence.cells.loc[evidence.cells["status"] == "done", "id"]))


MAX_NAMED_ROWS = 6
"""Rows that a remark names one by one; what is missing is seen in the table, too."""


def remarks(
    frame: pd.DataFrame, columns: Sequence[Column], aside: Collection[str] = ()
) -> list[str]:
    """Return why cells are missing or remarkable, one line per column and reason. Rows that stand
    `aside` are not ranked, whatever their seeds.
    """
    lines: list[str] = []
    for column in columns:
        cells = frame[frame["column"] == column.key]
        for reason, group in cells[cells["reason"] != ""].groupby("reason", sort=False):
            rows = list(group["row"])
            who = ", ".join(rows) if len(rows) <= MAX_NAMED_ROWS else f"{len(rows)} rows"
            who = "all rows" if len(rows) == len(cells) > 1 else who
            lines.append(f"{column.name}: {who}: {reason}")
        lines += _other_seeds(cells[~cells["row"].isin(aside)], column)
    return lines


def _other_seeds(cells: pd.DataFrame, column: Column) -> list[str]:
    """Return the note that rows of a column have different seeds and cannot be compared."""
    if not mixed(cells.loc[~cells["kind"].isin(EXACT), "by_seed"]):
        return []
    floor, seeds = common_floor(cells)
    names = ", ".join(map(str, seeds))
    word = "seed" if len(seeds) == 1 else "seeds"
    note = f"; the floor is that of {word} {names}, which all have"
    return [
        f"{column.name}: rows have different seeds and are not"
        f" ranked{note if isfinite(floor) else ''}"
    ]
