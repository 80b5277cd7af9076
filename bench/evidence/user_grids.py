"""Artefacts of a user's own grid: without a paper's renderer, a table is rows by recipes, and a
figure is the same as curves. Nothing is published, so there are no verdicts; rows are compared with
each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING

import pandas as pd

from repfl.paper_tables.core import builders, our_numbers, tables
from repfl.paper_tables.core.evidence import Evidence, extra_metrics
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Figure, Result, Table

if TYPE_CHECKING:
    from repfl.bench.grid.schema import Artefact

LAST_ROUND = ("Metrics beside accuracy are those of the last round.",)


def render(paper: str, name: str, artefact: Artefact, evidence: Evidence) -> Result:
    """Return a table or figure made directly from the evidence."""
    make = _figure if artefact.kind == "figure" else _table
    return make(paper, name, artefact.title, evidence)


def _columns(evidence: Evidence) -> tuple[Column, ...]:
    labels = evidence.cells.drop_duplicates("column").set_index("column")["column_label"]
    return tuple(Column(str(key), label) for key, label in labels.items())


def _table(paper: str, name: str, title: str, evidence: Evidence) -> Table:
    """Return every row at every recipe, with the majority-class baseline and overall statistics."""
    columns, rows = _columns(evidence), _rows(evidence)
    unpublished = {column.key: tables.Place("", "") for column in columns}
    frame = tables.accuracy_frame(evidence, name, rows, columns, unpublished)
    metrics, metric_cells = _metrics(evidence, columns)
    all_columns = columns
    if metrics:
        groups = [[replace(c, label="accuracy", group=c.label), *metrics[c.key]] for c in columns]
        all_columns = tuple(column for group in groups for column in group)
    return builders.table(
        evidence,
        (paper, name),
        title,
        "Accuracy as the grid's recipes report it.",
        rows=rows,
        columns=all_columns,
        frame=pd.concat([frame, metric_cells], ignore_index=True) if metrics else frame,
        scored=frame,
        compared=True,
        notes=(*_below_the_floor(evidence, frame, rows, columns), *(LAST_ROUND if metrics else ())),
    )


def _metrics(
    evidence: Evidence, columns: Sequence[Column]
) -> tuple[dict[str, list[Column]], pd.DataFrame]:
    """Return columns of the metrics beside accuracy, by the column of each recipe, and their cells.
    No value is marked as the best.
    """
    cells = evidence.cells[evidence.cells["status"] == "done"]
    cells = cells.assign(beside=pd.Series(extra_metrics(cells), cells.index, object))
    metrics: dict[str, list[Column]] = {}
    frame = []
    for column in columns:
        here = cells[cells["column"] == column.key]
        names = sorted({name for each in here["beside"] for name in each})
        for name in names:
            metric = Column(f"{column.key} {name}", name, column.label, "", 4, None)
            metrics.setdefault(column.key, []).append(metric)
            for row, runs in here.groupby("row", sort=False):
                values = [each.get(name, nan) for each in runs["beside"]]
                cell = {"row": row, "column": metric.key, **tables.printed_fields(None)}
                cell |= our_numbers.gather(runs, evidence.scale, values)
                frame.append(tables.conclude(cell, ""))
    if metrics:
        metrics = {column.key: metrics.get(column.key, []) for column in columns}
    return metrics, pd.DataFrame(frame, columns=list(CELL_FIELDS))


def _rows(evidence: Evidence) -> tuple[tables.Row, ...]:
    """Return the grid's rows; if clients join late, also those of accuracy on unseen clients."""
    rows, cells = tables.with_guests((), evidence), evidence.cells
    if "recipe.newcomers.share" not in cells:
        return rows
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
        for row in rows
    ]
    return (*rows, *(row for row in joining if row.only))


def _competes(frame: pd.DataFrame, rows: Sequence[tables.Row]) -> pd.Series:
    """Return which numbers are of rows that are compared with each other."""
    return frame["row"].isin([row.label for row in rows if not row.aside])


def _below_the_floor(
    evidence: Evidence, frame: pd.DataFrame, rows: Sequence[tables.Row], columns: Sequence[Column]
) -> Iterator[str]:
    """Yield, by recipe, the personalised methods that stay below the majority-class baseline."""
    shared = evidence.cells.loc[evidence.cells["one_model"].astype(bool), "method"]
    personal = frame[_competes(frame, rows) & ~frame["method"].isin(shared)]
    for column in columns:
        cells = personal[personal["column"] == column.key]
        low = cells[cells["ours"] < cells["floor"]]
        if len(low):
            pairs = zip(low["row"], low["ours"], strict=True)
            numbers = ", ".join(f"{row} {ours:.2f}" for row, ours in pairs)
            yield (
                f"{column.name}: below the floor of {low['floor'].iloc[0]:.2f}, what {tables.FLOOR}"
                f" gives: {numbers}."
            )


def _figure(paper: str, name: str, title: str, evidence: Evidence) -> Figure:
    """Draw accuracy by round at the reported scoring point, a panel per recipe, with seed bands."""
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
