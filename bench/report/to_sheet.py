"""From an artefact to its sheet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite, nan
from typing import Any

import pandas as pd

from repfl.bench.report import claim_words
from repfl.bench.report.artefact_data import BLANK, ArtefactData, Head, Number, Order
from repfl.bench.report.formats import formatting
from repfl.bench.report.links import addressed, slug
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.drawing import captions
from repfl.paper_tables.core.result import Column, Figure, Result, Table
from repfl.paper_tables.core.statistics.verdict import EXACT


def sheet_of(
    result: Result, printed: Mapping[str, Mapping[str, Any]], style: str = "report", **fields: Any
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
        "claims": tuple(claim_words.claim_data(c, result.paper, printed) for c in result.claims),
        **fields,
    }
    if isinstance(result, Figure):
        shown = tuple(_points(result.data, printed))
        if result.scale == "smoke":  # nothing reported stands beside toy runs
            shown = tuple(number for number in shown if number.kind in EXACT)
        return ArtefactData(
            **base, numbers=shown, judged=bool(shown), lines=_lines(result.data), alt=result.alt
        )
    return (
        ArtefactData(**base, **_tabled(result, style))
        if isinstance(result, Table)
        else ArtefactData(**base)
    )


def _tabled(table: Table, style: str) -> dict[str, Any]:
    """Return the fields that only tables have."""
    table, alone = as_toy(table), style == "paper"
    best = {side: formatting.marks(table, side, alone=alone) for side in ("ours", "published")}
    floors = formatting.floors(table)
    columns = {column.key: _head(column, floors) for column in table.layout.columns}
    cells = [cell for _, cell in table.frame.iterrows() if cell["column"] in columns]
    ids = addressed(f"{slug(cell['row'])}.{slug(cell['column'])}" for cell in cells)
    return {
        "remarks": tuple(tables.remarks(table.frame, table.layout.columns)),
        "numbers": tuple(
            _number(id_, cell, columns[cell["column"]], best)
            for id_, cell in zip(ids, cells, strict=True)
        ),
        "columns": tuple(columns.values()),
        "rows": tuple(table.layout.rows),
        "aside": tuple(table.layout.aside),
        "corner": table.layout.corner,
        "legend": formatting.legend(table.frame),
        "judged": table.printed,
        "orders": tuple(
            Order(
                columns[o.column].name,
                str(o.rows),
                BLANK if o.tau is None else formatting.signed(o.tau),
                ", ".join(o.winners_published),
                ", ".join(o.winners),
            )
            for o in table.orderings
        ),
        "summary": _summary(table.summary),
        "tested": table.tested,
    }


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


def _number(id_: str, cell: pd.Series, head: Head, best: Mapping[str, Any]) -> Number:
    key, digits = (cell["row"], head.key), head.digits
    return Number(
        id_,
        cell["row"],
        head.key,
        head.name,
        **_common(cell, digits),
        interval=formatting.between(cell["low"], cell["high"], digits),
        founded=formatting.founded(cell),
        tier=_text(cell["tier"]),
        method=_text(cell["method"]),
        unit=head.unit,
        ids=tuple(cell["ids"]),
        ours_mark=best["ours"].get(key, ""),
        published_mark=best["published"].get(key, ""),
        floor=_finite(cell["floor"]),
        ours_low=_finite(cell["low"]),
        ours_high=_finite(cell["high"]),
    )


def _common(cell: Any, digits: int) -> dict[str, Any]:
    """Return the fields that numbers of tables and of figures have in common."""
    return {
        "published": formatting.published(cell, digits) if cell["source"] else "",
        "ours": formatting.spread(cell["ours"], cell["std"], digits)
        if _is_number(cell["ours"])
        else "",
        "difference": formatting.gap(cell, digits),
        "seeds": int(cell["seeds"]) if _is_number(cell["seeds"]) else 0,
        "verdict": _text(cell["verdict"]),
        "mark": _text(cell["mark"]),
        "kind": _text(cell["kind"]),
        "basis": _text(cell["basis"]),
        "reason": _text(cell.get("reason", "")),
        "scale": _text(cell.get("scale", "")),
        "source": _text(cell["source"]),
        "value": _finite(cell["ours"]),
        "printed": _finite(cell["published"]),
        "gap": _finite(cell["difference"]),
        "low": _finite(cell["gap_low"]),
        "high": _finite(cell["gap_high"]),
    }


def _points(data: pd.DataFrame, printed: Mapping[str, Mapping[str, Any]]) -> Iterable[Number]:
    """Yield the published numbers that a figure shows."""
    if not {"source", "verdict", "kind", "ours"} <= set(data.columns):
        return
    published = data[data["source"] != ""].assign(printed="", published_std=float("nan"))
    rows = [printed.get(str(source), {}) for source in published["source"]]
    names = (
        slug(f"{row.get('method', '')} {row.get('dataset', '')} {row.get('setting', '')}")
        for row in rows
    )
    cells = (cell for _, cell in published.iterrows())
    for cell, row, id_ in zip(cells, rows, addressed(names), strict=True):
        where = ", ".join(filter(None, (str(row.get(k, "")) for k in ("dataset", "setting"))))
        yield Number(
            id_, str(row.get("method", "")), str(cell["column"]), where, **_common(cell, 2)
        )


def _lines(data: pd.DataFrame) -> dict[str, dict[str, list[list[float]]]]:
    """Return a figure's curves, if it has any."""
    if not {"label", "round", "mean", "column"} <= set(data.columns):
        return {}
    panel = "short" if "short" in data else "column"
    mixed = "scale" in data and data["scale"].nunique() > 1
    panels: dict[str, dict[str, list[list[float]]]] = {}
    for cell in data.dropna(subset=["round"]).to_dict("records"):
        kind = str(cell.get("kind") or "")
        log = kind if "log" in kind else ""
        value = cell["mean"] if _is_number(cell["mean"]) else cell.get("value")
        if value is None or not _is_number(value):
            continue
        what = log or (captions.SCALES.get(cell["scale"], "") if mixed else "")
        name = f"{cell['label']}{f', {what}' if what else ''}"
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


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and value == value


def _finite(value: Any) -> float | None:
    return round(float(value), 6) if _is_number(value) and isfinite(value) else None


# -- toy runs --------------------------------------------------------------------------------------

HIDDEN = {"published": nan, "published_std": nan, "printed": "", "source": "", "difference": nan,
          "gap_low": nan, "gap_high": nan, "verdict": None, "mark": ""}  # fmt: skip


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
