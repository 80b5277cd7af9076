"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bench.report import numbers, overview, render
from paper_tables.core import tables
from paper_tables.core.result import Absent, Column, Figure, Result, Table

COLOURS = {"match": "green", "near": "cyan", "off": "red", "floor": "magenta", "not comparable": "dim", "missing": "yellow"}
STYLES = {"best": "bold", "second": "underline", "": ""}


def show(results: Sequence[Result], console: Console) -> None:
    """Every table, one line per figure, and the verdicts."""
    for result in results:
        if isinstance(result, Table):
            _show_table(result, console)
        elif isinstance(result, Figure):
            console.print(f"[bold]{result.key}[/]  {result.title} (figure, {len(result.data)} points, {result.scale} scale)")
        elif isinstance(result, Absent):
            console.print(Text.assemble((result.key, "bold"), f"  {result.title}: ", (result.caption, "yellow")))
    _show_verdicts(results, console)


def _show_table(table: Table, console: Console) -> None:
    console.print(Text(f"\n{table.key}  {table.title}", style="bold"))
    fit = max(1, (console.width - 30) // 36)
    for group, columns in table.layout.groups:
        for first in range(0, len(columns), fit):
            console.print(_grid(table, group, columns[first : first + fit]))
    remarks = tables.remarks(table.frame, table.layout.columns)
    for line in remarks[:4]:
        console.print(Text(f"  {line}", style="dim"))
    if len(remarks) > 4:
        console.print(Text(f"  and {len(remarks) - 4} more remarks in the report", style="dim"))
    for claim in table.claims:
        console.print(Text(f"  {render.claim(claim, table.scale)}", style="dim"))


def _grid(table: Table, group: str, columns: tuple[Column, ...]) -> Grid:
    """One heading's columns, two lines per row: published and ours above difference and verdict."""
    best = {side: numbers.marks(table, side) for side in ("ours", "published")}
    floors = numbers.floors(table)
    grid = Grid(title=f"{group} ({table.scale} scale)", title_justify="left", header_style="bold", pad_edge=False)
    grid.add_column(table.layout.corner)
    for column in columns:
        grid.add_column(f"{column.label}\npublished | ours (seeds)", justify="right", no_wrap=True)
    for row in table.layout.rows:
        cells = [table.cell(row, c.key) for c in columns]
        if any(cell is not None for cell in cells):
            grid.add_row(row, *(_text(cell, c, best) for cell, c in zip(cells, columns, strict=True)))
    if any(c.key in floors for c in columns):
        grid.add_section()
        grid.add_row("majority class", *(numbers.plain(floors.get(c.key, float("nan")), c.digits) for c in columns))
    return grid


def _text(cell: pd.Series | None, column: Column, best: dict[str, dict[tuple[str, str], numbers.Mark]]) -> Text:
    if cell is None:
        return Text("")
    key = (cell["row"], column.key)
    text = Text()
    text.append(numbers.published(cell, column.digits), STYLES[best["published"].get(key, "")])
    text.append(" | ").append(numbers.ours(cell, column.digits), STYLES[best["ours"].get(key, "")])
    difference, verdict = numbers.judged(cell, column.digits)
    if verdict:
        text.append(f"\n{difference} ").append(verdict, COLOURS[verdict])
    return text


def _show_verdicts(results: Sequence[Result], console: Console) -> None:
    grid = Grid(title="Published numbers", title_justify="left", header_style="bold", pad_edge=False)
    for name in ("paper", "numbers", *overview.verdict_names(), "claims hold", "fail", "open"):
        grid.add_column(name, justify="left" if name == "paper" else "right")
    for s in overview.summaries(results, {}):
        counted = [str(n) if n else numbers.BLANK for n in s.verdicts.values()]
        grid.add_row(s.paper, str(s.published), *counted, str(s.holds), str(s.fails), str(s.open))
    console.print("")
    console.print(grid)
