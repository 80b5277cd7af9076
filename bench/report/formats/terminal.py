"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from repfl.bench.report import overview
from repfl.bench.report.numbers import Number
from repfl.bench.report.sheet import Sheet
from repfl.paper_tables.core.number_text import BLANK
from repfl.paper_tables.core.result import Column
from repfl.paper_tables.core.statistics.verdict import Verdict

COLOURS = {
    Verdict.REPRODUCED: "green",
    Verdict.UNDECIDED: "blue",
    Verdict.DIFFERS: "red",
    Verdict.OTHER_SCALE: "dim",
    Verdict.MISSING: "yellow",
}
STYLES = {"best": "bold", "second": "underline", "": ""}
MAX_IN_FULL, MAX_REMARKS = 3, 4
"""Largest number of tables and figures that are shown in full, and of remarks on each."""
MAX_NAME_WIDTH = 40
"""Characters of a row's name in one line; a longer name is wrapped."""
UNLIMITED_WIDTH = 10_000
"""A width in which every table fits."""
MAJORITY = "majority class"
CLAIMS = ("claims hold", "fail", "undecided")
TOY = "embedded digits, a few rounds: this shows that the code works, and nothing about a paper"


def show(sheets: Sequence[Sheet], console: Console) -> None:
    """Print a few tables and figures in full, or a line for each of many; then the verdicts."""
    if len(sheets) > MAX_IN_FULL:
        _show_lines(sheets, console)
    else:
        for sheet in sheets:
            _show_one(sheet, console)
    _show_verdicts([sheet for sheet in sheets if sheet.scale != "smoke"], console)


def _file(sheet: Sheet) -> str:
    return next((file for end in ("png", "md") for file in sheet.files if file.endswith(end)), "")


def _show_one(sheet: Sheet, console: Console) -> None:
    if sheet.kind == "absent":
        why = (sheet.caption, "yellow")
        console.print(Text.assemble((sheet.key, "bold"), f"  {sheet.title}: ", why))
        return
    scale = f" ({sheet.scale} scale)" if sheet.of_a_paper else ""
    console.print(Text(f"\n{sheet.key}  {sheet.title}{scale}", style="bold"))
    if sheet.kind == "figure":
        console.print(Text(f"  {_file(sheet)}"))
    for heads in _blocks(sheet, console):
        console.print(_grid(sheet, heads))
    toy = [TOY] if sheet.scale == "smoke" and sheet.of_a_paper else []
    more = len(sheet.remarks) - MAX_REMARKS
    rest = [f"and {more} more remarks in the report"] if more > 0 else []
    claims = [claim.line for claim in sheet.claims if not toy]
    for style, lines in (
        ("yellow", [*toy, *(() if sheet.judged else sheet.notes)]),
        ("", sheet.findings),
        ("dim", [*filter(None, [sheet.legend]), *sheet.remarks[:MAX_REMARKS], *rest, *claims]),
    ):
        for line in lines:
            console.print(Text(f"  {line}", style=style))


def _blocks(sheet: Sheet, console: Console) -> Iterator[list[Column]]:
    """Yield the columns, as many at a time as the terminal shows in full."""
    block: list[Column] = []
    for head in sheet.layout.columns:
        wide = _grid(sheet, [*block, head])
        options = console.options.update(width=UNLIMITED_WIDTH)
        if block and Measurement.get(console, options, wide).maximum > console.width:
            yield block
            block = []
        block.append(head)
    if block:
        yield block


def _grid(sheet: Sheet, heads: Sequence[Column]) -> Grid:
    """Return a table of some columns: published and ours above difference and verdict."""
    grid = Grid(header_style="bold", pad_edge=False)
    floors = {head.key for head in heads} & set(sheet.floors)
    names = [*sheet.layout.rows, sheet.layout.corner, MAJORITY if floors else ""]
    grid.add_column(sheet.layout.corner, width=min(max(map(cell_len, names)), MAX_NAME_WIDTH))
    sides = "\npublished | ours (seeds)" if sheet.judged else ""
    for head in heads:
        label = f"{head.group}\n{head.label}".strip()
        grid.add_column(f"{label}{sides}", justify="right", no_wrap=True)
    numbers = sheet.at()
    for row in sheet.layout.rows:
        cells = [numbers.get((row, head.key)) for head in heads]
        if any(cell is not None and (sheet.judged or cell.measured) for cell in cells):
            grid.add_row(row, *map(_text, cells))
    if floors:
        grid.add_section()
        grid.add_row(MAJORITY, *(sheet.floors.get(head.key, BLANK) for head in heads))
    return grid


def _text(cell: Number | None) -> Text:
    text = Text()
    if cell is None:
        return text
    if cell.source:
        text.append(cell.printed_text or BLANK, STYLES[cell.printed_mark]).append(" | ")
    text.append(cell.shown, STYLES[cell.ours_mark])
    if cell.verdict:  # marks are left to the files: screens are narrow
        text.append(f"\n{cell.difference_text} ").append(
            cell.verdict_text, COLOURS[Verdict(cell.verdict)]
        )
    return text


def _show_lines(sheets: Sequence[Sheet], console: Console) -> None:
    """Print one line per table or figure, without columns that are empty in all of them."""
    summaries = {sheet.key: overview.summaries([sheet], {})[0] for sheet in sheets}
    verdicts = [v for v in overview.STATES if any(s.verdicts[v] for s in summaries.values())]
    grid = Grid(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("artefact", "printed", *verdicts, "claims hold", "file"):
        side = "left" if name in ("artefact", "file") else "right"
        grid.add_column(name.replace(" ", "\n"), justify=side, no_wrap=True)  # type: ignore[arg-type]
    width = max(12, console.width - 110)
    grid.add_column("title", no_wrap=True, overflow="ellipsis", max_width=width)
    for sheet in sheets:
        s = summaries[sheet.key]
        counts = [str(s.verdicts[v] or "") for v in verdicts]
        absent = Text("absent: " + sheet.caption, style="yellow")
        title = absent if sheet.kind == "absent" else Text(sheet.title)
        claims = f"{s.claim_counts['holds']}/{sum(s.claim_counts.values())}" if s.claims else ""
        grid.add_row(sheet.key, str(len(s.numbers) or ""), *counts, claims, _file(sheet), title)
    console.print(grid)


def _show_verdicts(sheets: Sequence[Sheet], console: Console) -> None:
    grid = Grid(title="Published numbers", title_justify="left", header_style="bold")
    for name in ("paper", "in print", "in files", *overview.STATES, "in sentences", *CLAIMS):
        grid.add_column(name, justify="left" if name == "paper" else "right")
    summaries = [each for each in overview.summaries(sheets, {}) if each.published]
    for each in summaries:
        holds, fails, contradicted, open_, _ = each.claim_counts.values()
        claims = (holds, fails + contradicted, open_)
        counts = (*each.origins, *each.verdicts.values(), each.sentences, *claims)
        grid.add_row(each.paper, *(str(n) if n else BLANK for n in counts))
    if summaries:
        console.print("")
        console.print(grid)
