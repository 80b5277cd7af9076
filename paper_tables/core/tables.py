"""Accuracy tables: published beside ours, with a verdict, the floor and an ordering check per
column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import our_numbers
from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.evidence import Evidence, listed, places
from repfl.paper_tables.core.result import CELL_FIELDS, Column, TableLayout
from repfl.paper_tables.core.statistics.seeds import common_floor, mixed
from repfl.paper_tables.core.statistics.verdict import (
    EXACT,
    UNJUDGED,
    Judgement,
    Kind,
    Printing,
    Reading,
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
    """The name in the published csv; none: the label; empty: the paper prints no such row."""
    source: str = ""
    """The row of the grid; empty: the label."""
    point: str | None = None
    """Another scoring point of the same runs than the one the recipe reports."""
    rule: str | None = None
    """Another rule than the recipe's: last, max or best-val."""
    recipes: Mapping[str, str] = field(default_factory=dict)
    """Per table column, another recipe of the grid than the column's own."""
    only: tuple[str, ...] = ()
    """The columns that this row has; empty: all."""
    setting: str | None = None
    """The setting under which the csv prints this row; none: the column's."""
    aside: bool = False
    """A variant of ours that the paper prints no row for."""

    @property
    def printed(self) -> str:
        return self.label if self.published is None else self.published


@dataclass(frozen=True)
class Place:
    """Where the published numbers of a column stand."""

    dataset: str
    setting: str
    metric: str = ""


def published_row(
    published: pd.DataFrame, table: str, place: Place, method: str
) -> pd.Series | None:
    """The one published number at a place of a table."""
    wanted = {
        "method": method,
        "table": table,
        "dataset": place.dataset,
        "setting": place.setting,
        **({"metric": place.metric} if place.metric else {}),
    }
    rows = zip(*(listed(published, name) for name in wanted), strict=True)
    here = tuple(wanted.values())
    index = next((index for index, row in enumerate(rows) if row == here), None)
    return None if index is None else published.iloc[index]


def printed_fields(found: pd.Series | None) -> dict[str, Any]:
    """The paper's side of a table cell."""
    if found is None:
        return {"published": nan, "published_std": nan, "printed": "", "source": ""}
    return {
        "published": found["value"],
        "published_std": found["std"],
        "printed": found["mean"],
        "source": found["source"],
    }


NO_VERDICT = {
    "difference": nan,
    "gap_low": nan,
    "gap_high": nan,
    "verdict": None,
    "kind": "",
    "mark": "",
    "basis": "",
    "readings": None,
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
    """A table cell with its difference and verdict; without a published number it has neither.
    `why_incomparable` says why the two sides are not.
    """
    cell = {**cell, **NO_VERDICT}
    if not cell["source"] or not isfinite(cell["published"]):
        return cell
    printing = printing or Printing()
    ours = Runs(cell["ours"], cell["std"], max(1, cell["seeds"]))
    why_incomparable = why_incomparable or _other_rule(printing.rule, cell.get("rule", ""))

    def read(reading: Reading | None = None) -> Judgement:
        return judge(
            printing.side(cell["published"], cell["published_std"], reading),
            ours,
            kind=kind,
            scale=cell["scale"],
            unit=unit,
            expected=cell.get("expected"),
            rounding=rounding,
            why_incomparable=why_incomparable,
        )

    found = read()
    alike = found.verdict not in UNJUDGED
    return cell | {
        "difference": cell["ours"] - cell["published"] if alike else nan,
        "gap_low": found.low,
        "gap_high": found.high,
        "verdict": str(found.verdict),
        "kind": str(kind),
        "mark": _mark(cell, printing) if alike else "",
        "basis": found.basis,
        "readings": {
            reading: (read(reading).verdict, used) for reading, used in printing.readings.items()
        }
        if alike and kind == Kind.TRAINED
        else None,
    }


def _other_rule(printed: str, ours: str) -> str:
    """Why two numbers that were picked from their rounds by different rules are not held against
    each other.
    """
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
    """What a reader must know beside the verdict."""
    # one model for all clients is not compared with a constant of each client's own
    own = cell["scale"] == "paper" and not cell.get("one_model")
    low = own and at_floor(cell["published"], cell["floor"])
    best = printing.rule == cell.get("rule", "") == "max"
    return "; ".join(mark for mark, applies in ((AT_FLOOR, low), (BEST_ROUND, best)) if applies)


def accuracy_frame(
    evidence: Evidence,
    table: str,
    rows: Sequence[Row],
    columns: Sequence[Column],
    printed: Mapping[str, Place],
    printing: Printing | None = None,
    kind: Kind = Kind.TRAINED,
) -> pd.DataFrame:
    """The long form of an accuracy table; `printing` is what the paper tells of the runs behind
    it.
    """
    cells, planned_at, nothing = [], places(evidence), evidence.cells.iloc[:0]
    for row in rows:
        for column in columns:
            if row.only and column.key not in row.only:
                continue
            place = place_of(row, column, printed)
            found = (
                published_row(evidence.published, table, place, row.printed)
                if row.printed
                else None
            )
            planned = planned_at.get(
                (row.source or row.label, row.recipes.get(column.key, column.key)), nothing
            )
            if found is None and planned.empty:
                continue
            cell = {
                "row": row.label,
                "column": column.key,
                **printed_fields(found),
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


def looked_up(
    table: str, rows: Sequence[Row], columns: Sequence[Column], places: Mapping[str, Place]
) -> frozenset[tuple[str, ...]]:
    """Return the table, dataset, setting and method of every published number that is looked
    for.
    """
    asked = [
        (row, place_of(row, column, places))
        for row in rows
        for column in columns
        if row.printed and column.key in (row.only or (column.key,))
    ]
    return frozenset((table, place.dataset, place.setting, row.printed) for row, place in asked)


def lines_frame(evidence: Evidence, rows: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """The accuracies of a figure's lines in the long form of a table, nothing printed."""
    planned, nothing = places(evidence), evidence.cells.iloc[:0]
    cells = [
        {
            "row": row,
            "column": column,
            **printed_fields(None),
            **our_numbers.measure(evidence, planned.get((row, column), nothing)),
        }
        for column in columns
        for row in rows
    ]
    return pd.DataFrame(cells, columns=list(CELL_FIELDS))


def with_guests(rows: Sequence[Row], evidence: Evidence) -> tuple[Row, ...]:
    """The paper's rows, and one for every further row of the evidence, such as a method somebody
    adds to the grid.
    """
    known = {row.source or row.label for row in rows}
    return (
        *rows,
        *(
            Row(label, published="")
            for label in dict.fromkeys(evidence.cells["row"])
            if label not in known
        ),
    )


def layout_of(
    frame: pd.DataFrame, rows: Sequence[Row], columns: Sequence[Column], **options: Any
) -> TableLayout:
    """The rows that have anything to show, in their order."""
    shown = set(frame["row"])
    competing = tuple(r.label for r in rows if r.label in shown and not r.aside)
    aside = tuple(r.label for r in rows if r.label in shown and r.aside)
    return TableLayout((*competing, *aside), tuple(columns), aside=aside, **options)


def done_ids(evidence: Evidence) -> tuple[str, ...]:
    """The finished cells of an artefact, each once."""
    return tuple(dict.fromkeys(evidence.cells.loc[evidence.cells["status"] == "done", "id"]))


def remarks(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    """Why cells are missing or remarkable, one line per column and reason."""
    lines: list[str] = []
    for column in columns:
        cells = frame[frame["column"] == column.key]
        for reason, group in cells[cells["reason"] != ""].groupby("reason", sort=False):
            rows = list(group["row"])
            who = "all rows" if len(rows) == len(cells) > 1 else ", ".join(rows)
            lines.append(f"{column.name}: {who}: {reason}")
        lines += _other_seeds(cells, column)
    return lines


def _other_seeds(cells: pd.DataFrame, column: Column) -> list[str]:
    """That rows of a column cannot be held against each other as they stand."""
    if not mixed(cells.loc[~cells["kind"].isin(EXACT), "by_seed"]):
        return []
    floor, seeds = common_floor(cells)
    told = ", ".join(map(str, seeds))
    foot = f"; the floor is that of {'seed' if len(seeds) == 1 else 'seeds'} {told}, which all have"
    return [
        f"{column.name}: rows have different seeds, which may deal different clients, and are not"
        f" ranked{foot if isfinite(floor) else ''}"
    ]
