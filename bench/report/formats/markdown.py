"""A table as Markdown: ours over the reported number, with the verdict. Of a figure, how far our
curves lie from the paper's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pandas as pd

from repfl.bench.report.formats import formatting
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Sheet

Cell = Callable[[Number], str]


def grid_of(sheet: Sheet, text: Cell, rows: Sequence[str]) -> pd.DataFrame:
    """Return the texts of a table by row and column, the majority class last."""
    numbers, keys = sheet.at(), [column.key for column in sheet.layout.columns]
    cells = {row: [numbers.get((row, key)) for key in keys] for row in rows}
    lines = {row: [text(n) if n else "" for n in row_numbers] for row, row_numbers in cells.items()}
    if sheet.floors:
        lines["majority class"] = [sheet.floors.get(key, "") for key in keys]
    return pd.DataFrame.from_dict(lines, orient="index", columns=keys)


def markdown(sheet: Sheet) -> str:
    """Return one Markdown table per heading; best in bold, second underlined."""
    parts = [f"# {sheet.title}", sheet.caption]
    if sheet.judged:
        parts.append("Each cell: ours (runs), the reported number, difference and verdict.")
    parts.append(sheet.legend)
    grid = grid_of(sheet, _markdown_cell, sheet.layout.rows)
    rows = [f"*{name(row)}*" if row in sheet.layout.aside else name(row) for row in grid.index]
    for group, columns in sheet.layout.groups:
        cells = grid[[column.key for column in columns]].to_numpy().tolist()
        lines = [[row, *rest] for row, rest in zip(rows, cells, strict=True) if any(rest)]
        top = [name(sheet.layout.corner), *(name(column.label) for column in columns)]
        parts += ([f"## {group}"] if group else []) + [table(top, lines)]
    if sheet.orders:
        parts.append(
            table(ORDERS, [[name(text) for text in formatting.order(o)] for o in sheet.orders])
        )
    if sheet.summary and not sheet.judged:
        head, *lines = [[name(text) for text in line] for line in sheet.summary]
        statistics = table([name(sheet.layout.corner), *head[1:]], lines)
        parts.append(f"**Statistics over all columns**\n\n{statistics}\n\n{sheet.tested}")
    if sheet.curves:
        parts.append(f"**{CURVES}**\n\n{_curves(sheet)}")
    parts += [
        _bullets("Remarks", sheet.remarks),
        _bullets("What our runs show", sheet.findings),
        _bullets("Notes", sheet.notes),
        _bullets("Claims, in our words", [claim.line for claim in sheet.claims]),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


CURVES = "Our curves beside the paper's: ours minus theirs in points, on average over the rounds"


def _curves(sheet: Sheet) -> str:
    head = ["line", "where", "setting", "rounds", "runs", "difference", "rms", "noise", "verdict"]
    texts = [(c.row, c.where, c.setting, c.rounds, str(c.seeds)) for c in sheet.curves]
    values = [(c.difference_text, c.rms, c.noise, c.verdict) for c in sheet.curves]
    lines = [[*map(name, left), *right] for left, right in zip(texts, values, strict=True)]
    return table(head, lines)


ORDERS = ["Does the order of the rows hold?", "rows", "Kendall's τ", "best, reported", "best, ours"]


def _markdown_cell(number: Number) -> str:
    lines = [MARKED[number.ours_mark].format(name(number.shown))]
    if number.source:
        judged = " ".join(filter(None, (number.difference_text, number.verdict_with_mark)))
        lines += [MARKED[number.printed_mark].format(name(number.printed_text)), name(judged)]
    return "<br>".join(lines)


MARKED = {"best": "**{}**", "second": "<u>{}</u>", "": "{}"}


def name(text: str) -> str:
    """Escape text for the cell of a Markdown table."""
    return re.sub(r"([\\|<*`])", r"\\\1", " ".join(text.split()))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 0) -> str:
    """Return a table whose column `texts` has words, and all others numbers."""
    lines = [head, ["---" if index == texts else "---:" for index in range(len(head))], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bullets(title: str, lines: Sequence[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""
