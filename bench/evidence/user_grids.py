"""Artefacts of a grid of one's own: without a paper's renderer, a table is rows by recipes, and a
figure is the same as curves. Nothing is published, so nothing is judged; rows are held against each
other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING

import pandas as pd

from repfl.paper_tables.core import builders, our_numbers, tables
from repfl.paper_tables.core.evidence import Evidence, metrics_beside
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Figure, Result, Table

if TYPE_CHECKING:
    from repfl.bench.grid.schema import Artefact

LAST_ROUND = ("Metrics beside accuracy are those of the last round.",)


def render(paper: str, name: str, artefact: Artefact, evidence: Evidence) -> Result:
    """A table or figure straight from the evidence."""
    make = _figure if artefact.kind == "figure" else _table
    return make(paper, name, artefact.title, evidence)


def _columns(evidence: Evidence) -> tuple[Column, ...]:
    labels = evidence.cells.drop_duplicates("column").set_index("column")["column_label"]
    return tuple(Column(str(key), label) for key, label in labels.items())


def _table(paper: str, name: str, title: str, evidence: Evidence) -> Table:
    """Every row at every recipe, with the floor and with statistics over all columns."""
    columns, rows = _columns(evidence), _rows(evidence)
    nowhere = {column.key: tables.Place("", "") for column in columns}
    frame = tables.accuracy_frame(evidence, name, rows, columns, nowhere)
    further, beside = _metrics(evidence, columns)
    shown = columns
    if further:
        groups = [[replace(c, label="accuracy", group=c.label), *further[c.key]] for c in columns]
        shown = tuple(column for group in groups for column in group)
    return builders.table(
        evidence,
        (paper, name),
        title,
        "Accuracy as the grid's recipes report it.",
        rows=rows,
        columns=shown,
        frame=pd.concat([frame, beside], ignore_index=True) if further else frame,
        scored=frame,
        compared=True,
        notes=(*_below_the_floor(evidence, frame, rows, columns), *(LAST_ROUND if further else ())),
    )


def _metrics(
    evidence: Evidence, columns: Sequence[Column]
) -> tuple[dict[str, list[Column]], pd.DataFrame]:
    """Columns of the metrics that recipes ask for beside accuracy, by the column of each recipe,
    and their cells; which value is the best is not known of them.
    """
    cells = evidence.cells[evidence.cells["status"] == "done"]
    cells = cells.assign(beside=pd.Series(metrics_beside(cells), cells.index, object))
    further: dict[str, list[Column]] = {}
    frame = []
    for column in columns:
        here = cells[cells["column"] == column.key]
        names = sorted({name for each in here["beside"] for name in each})
        for name in names:
            metric = Column(f"{column.key} {name}", name, column.label, "", 4, None)
            further.setdefault(column.key, []).append(metric)
            for row, runs in here.groupby("row", sort=False):
                values = [each.get(name, nan) for each in runs["beside"]]
                cell = {"row": row, "column": metric.key, **tables.printed_fields(None)}
                cell |= our_numbers.gather(runs, evidence.scale, values)
                frame.append(tables.conclude(cell, ""))
    if further:
        further = {column.key: further.get(column.key, []) for column in columns}
    return further, pd.DataFrame(frame, columns=list(CELL_FIELDS))


def _rows(evidence: Evidence) -> tuple[tables.Row, ...]:
    """The grid's rows; where clients join late, beside each what it is worth to them."""
    own, cells = tables.with_guests((), evidence), evidence.cells
    if "recipe.newcomers.share" not in cells:
        return own
    late = cells[cells["recipe.newcomers.share"].notna()]
    joining = [
        tables.Row(
            f"{row.label}: newcomers",
            published="",
            source=row.label,
            point="newcomers",
            rule="last",
            only=tuple(late.loc[late["row"] == row.label, "column"].unique()),
            aside=True,
        )
        for row in own
    ]
    return (*own, *(row for row in joining if row.only))


def _competes(frame: pd.DataFrame, rows: Sequence[tables.Row]) -> pd.Series:
    """Which numbers are of rows that are held against each other."""
    return frame["row"].isin([row.label for row in rows if not row.aside])


def _below_the_floor(
    evidence: Evidence, frame: pd.DataFrame, rows: Sequence[tables.Row], columns: Sequence[Column]
) -> Iterator[str]:
    """What of personal models does not reach what needs no model at all."""
    shared = evidence.cells.loc[evidence.cells["one_model"].astype(bool), "method"]
    personal = frame[_competes(frame, rows) & ~frame["method"].isin(shared)]
    for column in columns:
        cells = personal[personal["column"] == column.key]
        low = cells[cells["ours"] < cells["floor"]]
        if len(low):
            pairs = zip(low["row"], low["ours"], strict=True)
            told = ", ".join(f"{row} {ours:.2f}" for row, ours in pairs)
            yield (
                f"{column.name}: below the floor of {low['floor'].iloc[0]:.2f}, what {tables.FLOOR}"
                f" gives: {told}."
            )


def _figure(paper: str, name: str, title: str, evidence: Evidence) -> Figure:
    """Accuracy by round at the reported scoring point, one panel per recipe; bands from the lowest
    to the highest seed.
    """
    columns, labels = _columns(evidence), list(dict.fromkeys(evidence.cells["row"]))
    point, average = (
        evidence.cells[f"recipe.evaluation.{field}"].iloc[0] for field in ("point", "average")
    )
    curve = f"{point}/{'pooled' if average == 'pooled' else 'mean'}"
    return builders.by_round(
        evidence,
        (paper, name),
        title,
        f"Accuracy by round ({curve}); bands span the seeds.",
        rows=labels,
        columns=columns,
        curve=curve,
    )
