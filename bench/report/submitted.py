"""A table as one would submit it: ours alone, best and second marked, no verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite, nan

import pandas as pd

from repfl.bench.report import numbers
from repfl.bench.report.tex import Look, Row, escape
from repfl.paper_tables.core.result import Column, Table
from repfl.paper_tables.core.tables import FLOOR
from repfl.paper_tables.core.verdict import EXACT

FEW = 3
"""As many exceptions are named one by one."""
OURS = re.compile(r" (?:Scale (?:paper|desk|smoke): |Exact at every scale)")
"""Where a caption begins to speak of our runs."""


def look(table: Table) -> Look:
    """Ours alone, with the deviation over seeds, in columns that align at the decimal point. A
    column without any number is left out.
    """
    best = numbers.marks(table, "ours", alone=True)
    left_out = table.layout.aside if table.printed else ()
    done = table.frame[table.frame["ours"].notna() & ~table.frame["row"].isin(left_out)]
    shown = [c for c in table.layout.columns if c.key in set(done["column"])]
    rows = []
    for row in (name for name in table.layout.rows if name not in left_out):
        cells = [(c, table.cell(row, c.key)) for c in shown]
        texts = {
            c.key: _aligned(cell, c, best.get((row, c.key), ""))
            for c, cell in cells
            if cell is not None
        }
        rows.append(Row(((escape(row), texts or {c.key: "{--}" for c in shown}),)))
    floors = numbers.floors(table)
    if floors:
        given = {c.key: floors[c.key] for c in shown if isfinite(floors.get(c.key, nan))}
        texts = {c.key: f"{given[c.key]:.{c.digits}f}" for c in shown if c.key in given}
        rows.append(Row((("Majority class", texts),), rule=True, foot=True))
    kinds = {c.key: _kind(table, c) for c in table.layout.columns}
    notes = list(_said(table, best, done, bool(floors)))
    packages = "booktabs,siunitx,threeparttable"
    return Look(rows, kinds, notes, packages, OURS.split(table.caption)[0])


def _aligned(cell: pd.Series, column: Column, mark: str) -> str:
    """A number as siunitx reads it."""
    if not isfinite(cell["ours"]):
        return "{--}"
    text = f"{cell['ours']:.{column.digits}f}"
    if isfinite(cell["std"]):
        text += f" +- {cell['std']:.{column.digits}f}"
    return {"best": rf"\bfseries {text}", "second": rf"{{\underline{{\num{{{text}}}}}}}"}.get(
        mark, text
    )


def _kind(table: Table, column: Column) -> str:
    """The column of siunitx that fits its numbers."""
    mine = table.frame[(table.frame["column"] == column.key) & table.frame["ours"].notna()]
    whole = max((len(f"{abs(value):.0f}") for value in mine["ours"]), default=2)
    sign = "-" if (mine["ours"] < 0).any() else ""
    widest = f"{mine['std'].max():.0f}" if mine["std"].notna().any() else ""
    spread = f"({len(widest) + column.digits})" if widest else ""
    form = f"{sign}{whole}.{column.digits}{spread}"
    return f"S[table-format={form}]"


def _said(
    table: Table, best: Mapping[tuple[str, str], str], done: pd.DataFrame, floor: bool
) -> Iterator[str]:
    """What stands below a table."""
    if "best" in best.values():
        yield r"Best in bold, second underlined, within each column."
    if done["std"].notna().any():
        counts = sorted({int(n) for n, s in zip(done["seeds"], done["std"], strict=True) if s == s})
        yield (
            "Mean and standard deviation over"
            f" {' or '.join(map(str, counts))} runs with different seeds."
        )
    if floor:
        yield f"Majority class: {FLOOR}."
    yield from map(escape, _scales(done, {c.key: c.name for c in table.layout.columns}))
    empty = [c for c in table.layout.columns if c.key not in set(done["column"])]
    if empty:
        parts = []
        for group, columns in table.layout.groups:
            missing = [c.label for c in columns if c in empty]
            told = ", ".join(missing) if len(missing) < len(columns) or not group else ""
            parts += [": ".join(filter(None, (group, told)))] if missing else []
        yield escape(f"Left out, without any number: {'; '.join(parts)}.")


def _scales(done: pd.DataFrame, names: Mapping[str, str]) -> Iterator[str]:
    """Which numbers are not of the paper's scale, where they are of runs."""
    of_runs = done[(done["ids"].map(len) > 0) & ~done["kind"].isin(EXACT)]
    small = of_runs[of_runs["scale"] != "paper"]
    if small.empty:
        return
    word = " and ".join(sorted(set(small["scale"])))
    mixed = of_runs[(of_runs["scale"] == "paper") & of_runs["column"].isin(small["column"])]
    but = "; ".join(f"{cell['row']} in {names[cell['column']]}" for _, cell in mixed.iterrows())
    if len(mixed) > FEW:
        but = f"{len(mixed)} numbers of {', '.join(dict.fromkeys(mixed['row']))}"
    full = set(of_runs["column"]) - set(small["column"])
    where = "; ".join(dict.fromkeys(names[key] for key in small["column"]))
    yield (
        ("The numbers" if not full else f"In {where}, numbers")
        + f" are of the {word} scale"
        + (f", but for {but}" if but else "")
        + ": not the protocol of the paper."
    )
