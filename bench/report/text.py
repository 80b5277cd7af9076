"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from repfl.bench.report import numbers, overview, render
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.result import Absent, Column, Figure, Result, Table, shown, stated
from repfl.paper_tables.core.verdict import Verdict

COLOURS = {
    Verdict.EQUAL: "green",
    Verdict.REPRODUCED: "green",
    Verdict.CONSISTENT: "cyan",
    Verdict.INCONCLUSIVE: "blue",
    Verdict.DIFFERS: "red",
    Verdict.OTHER_SCALE: "dim",
    Verdict.MISSING: "yellow",
}
FEW = 3
"""As many artefacts are shown in full; more would fill screens."""
STYLES = {"best": "bold", "second": "underline", "": ""}


def show(
    results: Sequence[Result], console: Console, files: Mapping[str, str] | None = None
) -> None:
    """A few artefacts in full; of many, a line each. `files` names what there is to open of an
    artefact.
    """
    if len(results) > FEW:
        _show_lines(results, console, files or {})
    else:
        for result in results:
            _show_one(result, console, files or {})
    _show_verdicts(results, console)


def _show_one(result: Result, console: Console, files: Mapping[str, str]) -> None:
    if isinstance(result, Table):
        _show_table(result, console)
    elif isinstance(result, Absent):
        console.print(
            Text.assemble((result.key, "bold"), f"  {result.title}: ", (result.caption, "yellow"))
        )
    elif isinstance(result, Figure):
        console.print(
            Text.assemble(
                (result.key, "bold"),
                f"  {result.title} ({result.scale} scale): {files.get(result.key, '')}",
            )
        )
        for claim in result.claims:
            console.print(Text(f"  {render.claim(claim, result.paper)}", style="dim"))


def _show_lines(results: Sequence[Result], console: Console, files: Mapping[str, str]) -> None:
    """One line per artefact; columns that would be empty in all of them are left out."""
    counted = {r.key: numbers.counts(shown(r)["verdict"]) for r in results}
    verdicts = [
        v for v in overview.verdict_names() if any(counts[v] for counts in counted.values())
    ]
    grid = Grid(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("artefact", "published", *verdicts, "claims hold", "file"):
        grid.add_column(
            name.replace(" ", "\n"),
            justify="left" if name in ("artefact", "file") else "right",
            no_wrap=True,
        )
    grid.add_column(
        "title", no_wrap=True, overflow="ellipsis", max_width=max(12, console.width - 90)
    )
    for r in results:
        published = len(shown(r)) + len(stated(r))
        given = [str(counted[r.key][v] or "") for v in verdicts]
        title = (
            Text("absent: " + r.caption, style="yellow") if isinstance(r, Absent) else Text(r.title)
        )
        held = f"{sum(c.holds is True for c in r.claims)}/{len(r.claims)}" if r.claims else ""
        grid.add_row(r.key, str(published or ""), *given, held, files.get(r.key, ""), title)
    console.print(grid)


def _show_table(table: Table, console: Console) -> None:
    console.print(Text(f"\n{table.key}  {table.title}", style="bold"))
    fit = max(1, (console.width - 30) // 36)
    for group, columns in table.layout.groups:
        for first in range(0, len(columns), fit):
            console.print(_grid(table, group, columns[first : first + fit]))
    remarks = tables.remarks(table.frame, table.layout.columns)
    for line in table.notes if not table.printed else ():
        console.print(Text(f"  {line}", style="yellow"))
    for line in remarks[:4]:
        console.print(Text(f"  {line}", style="dim"))
    if len(remarks) > 4:
        console.print(Text(f"  and {len(remarks) - 4} more remarks in the report", style="dim"))
    for claim in table.claims:
        console.print(Text(f"  {render.claim(claim, table.paper)}", style="dim"))


def _grid(table: Table, group: str, columns: tuple[Column, ...]) -> Grid:
    """One heading's columns, two lines per row: published and ours above difference and verdict."""
    best = {side: numbers.marks(table, side) for side in ("ours", "published")}
    floors = numbers.floors(table)
    grid = Grid(
        title=f"{group} ({table.scale} scale)",
        title_justify="left",
        header_style="bold",
        pad_edge=False,
    )
    grid.add_column(table.layout.corner)
    sides = "published | ours (seeds)" if table.printed else "(seeds)"
    for column in columns:
        grid.add_column(f"{column.label}\n{sides}", justify="right", no_wrap=True)
    for row in table.layout.rows:
        cells = [table.cell(row, c.key) for c in columns]
        if any(cell is not None for cell in cells):
            grid.add_row(
                row,
                *(
                    _text(cell, c, best, printed=table.printed)
                    for cell, c in zip(cells, columns, strict=True)
                ),
            )
    if any(c.key in floors for c in columns):
        grid.add_section()
        grid.add_row(
            "majority class",
            *(numbers.plain(floors.get(c.key, float("nan")), c.digits) for c in columns),
        )
    return grid


def _text(
    cell: pd.Series | None,
    column: Column,
    best: dict[str, dict[tuple[str, str], numbers.Mark]],
    *,
    printed: bool,
) -> Text:
    if cell is None:
        return Text("")
    key = (cell["row"], column.key)
    text = Text()
    if printed:
        text.append(numbers.published(cell, column.digits), STYLES[best["published"].get(key, "")])
        text.append(" | ")
    text.append(numbers.ours(cell, column.digits), STYLES[best["ours"].get(key, "")])
    if isinstance(cell["verdict"], str):  # marks are left to the files: screens are narrow
        text.append(f"\n{numbers.gap(cell, column.digits)} ").append(
            cell["verdict"], COLOURS[Verdict(cell["verdict"])]
        )
    return text


def _show_verdicts(results: Sequence[Result], console: Console) -> None:
    grid = Grid(
        title="Published numbers", title_justify="left", header_style="bold", pad_edge=False
    )
    places = ("numbers", "in tables", "in figures", "in sentences")
    for name in ("paper", *places, *overview.verdict_names(), "claims hold", "fail", "open"):
        grid.add_column(name, justify="left" if name == "paper" else "right")
    told = [summary for summary in overview.summaries(results, {}) if summary.published]
    for s in told:
        counts = (
            s.published,
            s.tables,
            s.figures,
            s.sentences,
            *s.verdicts.values(),
            s.holds,
            s.fails,
            s.open,
        )
        grid.add_row(s.paper, *(str(n) if n else numbers.BLANK for n in counts))
    if told:
        console.print("")
        console.print(grid)
