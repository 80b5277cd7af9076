"""From an artefact to its sheet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from repfl.bench.report.artefact_data import ArtefactData, ClaimData, Head, Order
from repfl.bench.report.formats import formatting
from repfl.bench.report.numbers import of_result
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.result import Claim, Column, Figure, Result, Table
from repfl.paper_tables.core.statistics.verdict import EXACT


def sheet_of(
    result: Result, printed: Mapping[str, Mapping[str, Any]], **fields: Any
) -> ArtefactData:
    """Return an artefact's sheet. `printed` are the rows of the published files by their source."""
    base = {
        "paper": result.paper,
        "name": result.name,
        "kind": type(result).__name__.lower(),
        "title": result.title,
        "caption": result.caption,
        "scale": result.scale,
        "findings": tuple(result.findings),
        "notes": tuple(result.notes),
        "claims": tuple(_claim(c, printed) for c in result.claims),
        **fields,
    }
    if isinstance(result, Figure):
        shown = of_result(result, printed)
        return ArtefactData(
            **base, numbers=shown, judged=bool(shown), lines=_lines(result.data), alt=result.alt
        )
    return (
        ArtefactData(**base, **_tabled(as_toy(result), printed))
        if isinstance(result, Table)
        else ArtefactData(**base)
    )


QUOTED = re.compile(r"“([^”]+)”")
MAX_FRAGMENT_WORDS = 3
"""Quotations of up to this many words are no sentence, such as “at least”."""


def _claim(claim: Claim, printed: Mapping[str, Mapping[str, Any]]) -> ClaimData:
    """Return a claim for a sheet, with the sentences that published files quote from the paper."""
    notes = (str(printed.get(source, {}).get("note", "")) for source in claim.sources)
    quoted = dict.fromkeys(text for note in notes for text in QUOTED.findall(note))
    return ClaimData(
        claim.id,
        claim.text,
        claim.place,
        str(claim.state),
        claim.why,
        claim.printed,
        tuple(claim.sources),
        tuple(text for text in quoted if len(text.split()) > MAX_FRAGMENT_WORDS),
        claim.ours,
        claim.scale,
    )


def _tabled(table: Table, printed: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the fields that only tables have."""
    floors, numbers = formatting.floors(table), of_result(table, printed)
    columns = {column.key: _head(column, floors) for column in table.layout.columns}
    return {
        "remarks": tuple(tables.remarks(table.frame, table.layout.columns)),
        "numbers": numbers,
        "columns": tuple(columns.values()),
        "rows": tuple(table.layout.rows),
        "aside": tuple(table.layout.aside),
        "corner": table.layout.corner,
        "legend": formatting.legend({word for number in numbers for word in number.evidence}),
        "judged": table.printed,
        "orders": tuple(
            Order(
                columns[o.column].name,
                str(o.rows),
                formatting.BLANK if o.tau is None else formatting.signed(o.tau),
                ", ".join(o.winners_published),
                ", ".join(o.winners),
            )
            for o in table.orderings
        ),
        "summary": _summary(pd.DataFrame() if _mixed(table) else table.summary),
        "tested": table.tested,
    }


def _mixed(table: Table) -> bool:
    """Return whether reduced runs are among the numbers of a paper's table: no statistics over all
    columns are shown beside printed numbers then.
    """
    ours = table.frame[table.frame["ours"].notna() & ~table.frame["kind"].isin([*map(str, EXACT)])]
    return table.printed and bool((ours["scale"] != "paper").any())


def _head(column: Column, floors: Mapping[str, float]) -> Head:
    has_floor = column.key in floors
    return Head(
        column.key,
        column.label,
        column.name,
        column.group,
        column.unit,
        column.digits,
        formatting.plain(floors[column.key], column.digits) if has_floor else "",
    )


def _lines(data: pd.DataFrame) -> dict[str, dict[str, list[list[float]]]]:
    """Return a figure's curves, if it has any."""
    if not {"label", "round", "mean", "column"} <= set(data.columns):
        return {}
    panel = "short" if "short" in data else "column"
    panels: dict[str, dict[str, list[list[float]]]] = {}
    for cell in data.dropna(subset=["round"]).to_dict("records"):
        kind = str(cell.get("kind") or "")
        log = kind if "log" in kind else ""
        value = cell["mean"] if _is_number(cell["mean"]) else cell.get("value")
        if value is None or not _is_number(value):
            continue
        name = f"{cell['label']}{f', {log}' if log else ''}"
        line = panels.setdefault(str(cell[panel]), {}).setdefault(name, [])
        line.append([float(cell["round"]), round(float(value), 3)])
    return panels


def _summary(frame: pd.DataFrame) -> tuple[tuple[str, ...], ...]:
    if not len(frame):
        return ()
    head = ("", *map(str, frame.columns))
    lines = (
        (str(row), *(formatting.statistic(str(name), value) for name, value in values.items()))
        for row, values in frame.iterrows()
    )
    return (head, *lines)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and value == value


# -- toy runs --------------------------------------------------------------------------------------

HIDDEN = {
    **tables.printed_fields(None),
    **{
        name: tables.NO_VERDICT[name] for name in tables.NO_VERDICT if name not in ("kind", "basis")
    },
}
"""What is not shown of a number that digits stand in for."""


def as_toy(table: Table) -> Table:
    """Return a table of toy runs as readers see it: columns of trained numbers say that they are of
    digits, and no reported number stands beside them.
    """
    if table.scale != "smoke" or not table.printed:
        return table
    frame = table.frame.astype({"verdict": object})
    trained = ~frame["kind"].isin([*map(str, EXACT)])
    frame.loc[trained, list(HIDDEN)] = pd.DataFrame(HIDDEN, index=frame.index[trained])
    digits = set(frame.loc[trained, "column"])
    columns = [
        replace(
            c,
            group=f"digits (for {c.group})" if c.group else "",
            label=c.label if c.group else f"digits (for {c.label})",
        )
        if c.key in digits
        else c
        for c in table.layout.columns
    ]
    return replace(table, frame=frame, layout=replace(table.layout, columns=tuple(columns)))
