"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from repfl.bench.report import overview
from repfl.bench.report.sheet import Head, Number, Sheet
from repfl.paper_tables.core.verdict import EXACT, Verdict

BLANK = "\N{EN DASH}"
COLOURS = {
    Verdict.REPRODUCED: "green",
    Verdict.UNDECIDED: "blue",
    Verdict.DIFFERS: "red",
    Verdict.OTHER_SCALE: "dim",
    Verdict.MISSING: "yellow",
}
FEW = 3
"""As many artefacts are shown in full; more would fill screens."""
STYLES = {"best": "bold", "second": "underline", "": ""}


def show(sheets: Sequence[Sheet], console: Console) -> None:
    """A few artefacts in full; of many, a line each."""
    if len(sheets) > FEW:
        _show_lines(sheets, console)
    else:
        for sheet in sheets:
            _show_one(sheet, console)
    _show_verdicts([sheet for sheet in sheets if not _is_toy(sheet)], console)


def _is_toy(sheet: Sheet) -> bool:
    """Return whether a paper's artefact is made from embedded digits: nothing published is shown
    beside its numbers.
    """
    return sheet.judged and sheet.scale == "smoke"


def _file(sheet: Sheet) -> str:
    """What there is to open of an artefact."""
    return next((file for end in ("png", "md") for file in sheet.files if file.endswith(end)), "")


def _show_one(sheet: Sheet, console: Console) -> None:
    if sheet.kind == "table":
        _show_table(sheet, console)
    elif sheet.kind == "absent":
        why = (sheet.caption, "yellow")
        console.print(Text.assemble((sheet.key, "bold"), f"  {sheet.title}: ", why))
    else:
        told = f"  {sheet.title} ({sheet.scale} scale): {_file(sheet)}"
        console.print(Text.assemble((sheet.key, "bold"), told))
        _show_claims(sheet, console)


def _show_lines(sheets: Sequence[Sheet], console: Console) -> None:
    """One line per artefact; columns that would be empty in all of them are left out."""
    counted = {sheet.key: overview.summaries([sheet], {})[0] for sheet in sheets}
    verdicts = [v for v in overview.STATES if any(s.verdicts[v] for s in counted.values())]
    grid = Grid(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("artefact", "published", *verdicts, "claims hold", "file"):
        grid.add_column(
            name.replace(" ", "\n"),
            justify="left" if name in ("artefact", "file") else "right",
            no_wrap=True,
        )
    grid.add_column(
        "title", no_wrap=True, overflow="ellipsis", max_width=max(12, console.width - 110)
    )
    for sheet in sheets:
        told = counted[sheet.key]
        given = [str(told.verdicts[v] or "") for v in verdicts]
        absent = Text("absent: " + sheet.caption, style="yellow")
        title = absent if sheet.kind == "absent" else Text(sheet.title)
        held = f"{told.held['holds']}/{len(told.claims)}" if told.claims else ""
        grid.add_row(sheet.key, str(told.published or ""), *given, held, _file(sheet), title)
    console.print(grid)


def _show_table(sheet: Sheet, console: Console) -> None:
    console.print(Text(f"\n{sheet.key}  {sheet.title}", style="bold"))
    if _is_toy(sheet):
        _show_toy(sheet, console)
        return
    fit = max(1, (console.width - 30) // 36)
    for group, heads in sheet.groups:
        for first in range(0, len(heads), fit):
            shown = heads[first : first + fit]
            sides = "published | ours (seeds)" if sheet.judged else "(seeds)"
            labels = [f"{head.label}\n{sides}" for head in shown]
            title = f"{group} ({sheet.scale} scale)"
            console.print(_grid(sheet, title, shown, labels, judged=sheet.judged))
    for line in sheet.findings:
        console.print(Text(f"  {line}"))
    for line in sheet.notes if not sheet.judged else ():
        console.print(Text(f"  {line}", style="yellow"))
    for line in sheet.remarks[:4]:
        console.print(Text(f"  {line}", style="dim"))
    if len(sheet.remarks) > 4:
        more = len(sheet.remarks) - 4
        console.print(Text(f"  and {more} more remarks in the report", style="dim"))
    _show_claims(sheet, console)


def _show_claims(sheet: Sheet, console: Console) -> None:
    for claim in sheet.claims if sheet.scale != "smoke" else ():
        console.print(Text(f"  {claim.line}", style="dim"))


def _show_toy(sheet: Sheet, console: Console) -> None:
    """Show our numbers on embedded digits, as many columns beside each other as fit."""
    told = (
        "embedded digits, a few rounds: this shows that the code works, and nothing about a paper"
    )
    console.print(Text(f"  {told}", style="yellow"))
    fit = max(1, (console.width - 30) // 20)
    for first in range(0, len(sheet.columns), fit):
        heads = sheet.columns[first : first + fit]
        labels = [f"{head.group}\n{head.label}".strip() for head in heads]
        console.print(_grid(sheet, "", heads, labels, judged=False))


def _grid(
    sheet: Sheet, title: str, heads: Sequence[Head], labels: Sequence[str], *, judged: bool
) -> Grid:
    """Return a table of some columns. If numbers are published, a row has two lines: published and
    ours above difference and verdict.
    """
    grid = Grid(title=title or None, title_justify="left", header_style="bold", pad_edge=False)
    grid.add_column(sheet.corner)
    for label in labels:
        grid.add_column(label, justify="right", no_wrap=True)
    found = sheet.at()
    for row in sheet.rows:
        cells = [found.get((row, head.key)) for head in heads]
        if any(cell is not None and (judged or cell.measured) for cell in cells):
            grid.add_row(row, *(_text(cell, judged=judged) for cell in cells))
    if any(head.floor for head in heads):
        grid.add_section()
        grid.add_row("majority class", *(head.floor or BLANK for head in heads))
    return grid


def _text(cell: Number | None, *, judged: bool) -> Text:
    if cell is None:
        return Text("")
    text = Text()
    if judged:
        text.append(cell.published or BLANK, STYLES[cell.published_mark])
        text.append(" | ")
    seeds = f" ({cell.seeds}){cell.founded}" if cell.measured and cell.kind not in EXACT else ""
    text.append(f"{cell.ours or BLANK}{seeds}", STYLES[cell.ours_mark])
    if cell.verdict and judged:  # marks are left to the files: screens are narrow
        text.append(f"\n{cell.difference} ").append(cell.verdict, COLOURS[Verdict(cell.verdict)])
    return text


def _show_verdicts(sheets: Sequence[Sheet], console: Console) -> None:
    grid = Grid(
        title="Published numbers", title_justify="left", header_style="bold", pad_edge=False
    )
    names = ("paper", "numbers", *overview.STATES, "claims hold", "fail", "undecided")
    for name in names:
        grid.add_column(name, justify="left" if name == "paper" else "right")
    told = [each for each in overview.summaries(sheets, {}) if each.published]
    for each in told:
        holds, fails, contradicted, open_ = each.held.values()
        counts = (each.published, *each.verdicts.values(), holds, fails + contradicted, open_)
        grid.add_row(each.paper, *(str(n) if n else BLANK for n in counts))
    if told:
        console.print("")
        console.print(grid)
