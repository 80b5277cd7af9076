"""Tables and figures without code: rows of the grid against its recipes, beside what the paper
prints for a recipe, if the grid says where (`printed`).

A grid of one's own is a paper that prints nothing, and rows are compared with each other. A paper
writes a function of its own (`artefacts.py`) for what has another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

import pandas as pd

from repfl.paper_tables.core import forms, our_numbers, tables
from repfl.paper_tables.core.errors import PaperError
from repfl.paper_tables.core.evidence import Evidence, chosen_text, extra_metrics
from repfl.paper_tables.core.result import CELL_FIELDS, Column, Figure, Table
from repfl.paper_tables.core.statistics.verdict import Printing
from repfl.paper_tables.core.tables import Place

LAST_ROUND = ("Metrics beside accuracy are those of the last round.",)
NOWHERE = Place("", "")


def table(
    key: forms.Key,
    words: tuple[str, str],
    evidence: Evidence,
    places: Mapping[str, Place],
    printing: Printing,
) -> Table:
    """Return every row at every recipe. `places` say where in the published file of the table the
    numbers of a recipe stand; without any there are statistics over all columns. `words` are title
    and caption; without a caption one is made from the runs.
    """
    columns, number = _columns(evidence), _number(evidence, key[1])
    rows = _rows(evidence, number)
    at = {column.key: places.get(column.key, NOWHERE) for column in columns}
    frame = tables.accuracy_frame(evidence, number, rows, columns, at, printing)
    metrics, metric_cells = _metrics(evidence, columns)
    all_columns = columns
    if metrics:
        groups = [[replace(c, label="accuracy", group=c.label), *metrics[c.key]] for c in columns]
        all_columns = tuple(column for group in groups for column in group)
    made = forms.table(
        evidence,
        key,
        words[0],
        f"Accuracy as the grid's recipes report it.{_searched(evidence)}",
        caption=words[1],
        rows=rows,
        columns=all_columns,
        frame=pd.concat([frame, metric_cells], ignore_index=True) if metrics else frame,
        scored=frame,
        compared=not number,
        notes=(
            *_below_the_floor(evidence, frame, rows, columns),
            *_chosen(evidence, columns),
            *(LAST_ROUND if metrics else ()),
        ),
    )
    return replace(made, requested_numbers=tables.requested_numbers(number, rows, columns, at))


def figure(key: forms.Key, words: tuple[str, str], evidence: Evidence) -> Figure:
    """Draw accuracy by round at the reported scoring point, a panel per recipe, with seed bands."""
    columns, labels = _columns(evidence), list(dict.fromkeys(evidence.cells["row"]))
    point, average = (
        evidence.cells[f"recipe.evaluation.{field}"].iloc[0] for field in ("point", "average")
    )
    curve = f"{point}/{'pooled' if average == 'pooled' else 'mean'}"
    what = f"Accuracy by round ({curve}); bands span the seeds."
    title, caption = words
    data = forms.accuracy_curves(evidence, labels, [column.key for column in columns], curve)
    return forms.by_round(
        evidence,
        key,
        title,
        what,
        rows=labels,
        columns=columns,
        data=data,
        notes=[*_once(data)],
        caption=caption,
    )


def _once(curves: pd.DataFrame) -> Iterator[str]:
    """Yield which lines are a single mark beside others that are not."""
    rounds = curves.groupby(["label", "column"])["round"].nunique()
    single = rounds[rounds == 1].index.get_level_values("label")
    if len(single) and (rounds > 1).any():
        yield (
            f"Scored in one round alone, a single mark: {', '.join(dict.fromkeys(single))};"
            " evaluation.finetuned_every scores fine-tuned models more often."
        )


def _chosen(evidence: Evidence, columns: Sequence[Column]) -> Iterator[str]:
    """Yield what validation chose in each recipe: every searched option, by seed."""
    for column in columns:
        here = evidence.cells[evidence.cells["column"] == column.key].sort_values("seed")
        studies = here.groupby("row", sort=False)["chosen"]
        texts = {str(row): chosen_text(each) for row, each in studies}
        rows = [f"{row}: {text}" for row, text in texts.items() if text]
        if rows:
            yield f"{column.label}, chosen by validation, by seed. {'. '.join(rows)}."


def _searched(evidence: Evidence) -> str:
    """Return the sentence on how options were chosen, for a reader who has the table alone."""
    trials = evidence.trials()
    if trials.empty:
        return ""
    counts = trials.groupby(["row", "column", "seed"]).size()
    most = f"up to {counts.max()}" if counts.min() < counts.max() else str(counts.max())
    tried: dict[str, list[Any]] = {}
    for options in trials["options"]:
        for name, value in options.items():
            tried.setdefault(name, []).append(value)
    ranges = (f"{name} {_range(values)}" for name, values in tried.items())
    return (
        f" In every seed the best of {most} trials by validation accuracy;"
        f" tried: {', '.join(ranges)}."
    )


def _range(values: Sequence[Any]) -> str:
    if all(isinstance(value, float | int) for value in values):
        return f"{min(values):.3g} to {max(values):.3g}"
    return " or ".join(dict.fromkeys(map(str, values)))


def _columns(evidence: Evidence) -> tuple[Column, ...]:
    labels = evidence.cells.drop_duplicates("column").set_index("column")["column_label"]
    return tuple(Column(str(key), label) for key, label in labels.items())


def _number(evidence: Evidence, name: str) -> str:
    """Return the name of a table in its published file; empty if it has no file."""
    printed = evidence.published
    here = printed[printed["file"] == f"{name}.csv"] if len(printed) else printed
    numbers = [str(number) for number in here["table"].unique()] if len(here) else []
    if len(numbers) > 1:
        raise PaperError(f"published/{name}.csv: has tables {', '.join(numbers)}; valid: one")
    return numbers[0] if numbers else ""


def _rows(evidence: Evidence, number: str) -> tuple[tables.Row, ...]:
    """Return the grid's rows, and printed ones that it lacks; if clients join late, also those of
    accuracy on unseen clients.
    """
    cells, printed = evidence.cells, evidence.published
    methods = list(printed.loc[printed["table"] == number, "method"]) if number else []
    labels = dict.fromkeys([*cells["row"], *methods])
    rows = tuple(tables.Row(label, published=None if number else "") for label in labels)
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
