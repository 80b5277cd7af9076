"""Tables as LaTeX, in two styles: `report` has ours, the published numbers and the verdicts;
`paper` is what one would submit: ours alone, best and second marked. Tables that are wider than a
page are cut between their headings, and those that are longer go on in a second float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from textwrap import wrap
from typing import Any

import pandas as pd

from repfl.bench.report import numbers, submitted
from repfl.bench.report.tex import WRAP, Look, Row, escape
from repfl.paper_tables.core.result import Column, Table
from repfl.paper_tables.core.verdict import Verdict

STYLES = ("report", "paper")
WIDTH = 500.0
"""Points between the margins of a page with two columns."""
GLYPH, GAP = 4.4, 6.0
"""Points of a character at footnote size, and between columns."""
LINES = 52
"""Lines that a float may have beside its caption and notes."""
MARKS = {"at the floor": "f", "best round on test": "b"}
"""What stands beside a verdict, as a letter."""
MEANT = {"f": "the printed number is at the floor", "b": "both are the best round on test images"}
SIUNITX = r"\sisetup{separate-uncertainty=true,group-digits=integer,detect-weight=true}"


def latex(table: Table, style: str = "report") -> str:
    """The whole text of a table, for a class with two columns."""
    look = submitted.look(table) if style == "paper" else _report(table)
    panels = _panels(table, look)
    floats: list[list[str]] = []
    room = 0
    for columns, rows in panels:
        size = sum(len(row.lines) for row in rows) + 3
        if not floats or room + size > LINES:
            floats.append([])
            room = 0
        floats[-1].append(_tabular(table, look, columns, rows))
        room += size
    kind = "table" if all(_fits(look, *panel) for panel in panels) else "table*"
    texts = [_float(table, look, body, place, kind) for place, body in enumerate(floats)]
    return f"% \\usepackage{{{look.packages}}}\n" + "".join(texts)


def title(text: str) -> str:
    """A title without its number, which LaTeX gives."""
    return re.sub(r"^(Table|Figure) [0-9IVXLC]+: *", "", text)


# -- the page --------------------------------------------------------------------------------------


def _panels(table: Table, look: Look) -> list[tuple[list[Column], list[Row]]]:
    """Columns that fit beside each other, with the rows that fit below each other, and nothing that
    is empty there. Headings stay together where they can, and are cut evenly where they cannot.
    """
    label = max(len(_seen(name)) for row in look.rows for name, _ in row.lines) * GLYPH + GAP
    shown = [c for c in table.layout.columns if any(map(_says(c), look.rows))]
    widths = {column.key: _width(look, column) for column in shown}
    parts: list[list[Column]] = []
    used = WIDTH
    for _, group in table.layout.groups:
        for some in _cut([c for c in group if c in shown], widths, WIDTH - label):
            whole = sum(widths[c.key] for c in some)
            if not parts or used + whole > WIDTH:
                parts.append([])
                used = label
            parts[-1] += some
            used += whole
    found = []
    for columns in parts:
        for rows in _chunks([here for row in look.rows if (here := _within(row, columns))]):
            filled = [c for c in columns if any(map(_says(c), rows))]
            found += [(filled, rows)] if filled else []
    return found


def _fits(look: Look, columns: Sequence[Column], rows: Sequence[Row]) -> bool:
    """Whether a panel is no wider than one of a page's two columns."""
    label = max(len(_seen(name)) for row in rows for name, _ in row.lines) * GLYPH + GAP
    return label + sum(_width(look, column) for column in columns) <= (WIDTH - 20) / 2


def _width(look: Look, column: Column) -> float:
    """About how wide a column is, in points."""
    texts = [texts.get(column.key, "") for row in look.rows for _, texts in row.lines]
    widest = max(map(len, map(_seen, [*texts, *_folded(look, column)])))
    return widest * GLYPH + GAP


def _folded(look: Look, column: Column) -> list[str]:
    """The lines of a column's heading: not much wider than what stands below it."""
    texts = [texts.get(column.key, "") for row in look.rows for _, texts in row.lines]
    below = max(map(len, map(_seen, texts)), default=0)
    return wrap(column.label, max(below, 11), break_long_words=False) or [""]


def _cut(
    group: Sequence[Column], widths: Mapping[str, float], room: float
) -> Iterator[Sequence[Column]]:
    """The columns of a heading in as few parts as fit, all about as many."""
    for parts in range(1, len(group) + 1):
        many = ceil(len(group) / parts)
        found = [group[first : first + many] for first in range(0, len(group), many)]
        if parts == len(group) or all(sum(widths[c.key] for c in f) <= room for f in found):
            yield from found
            return


def _chunks(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows that fit below each other."""
    found: list[list[Row]] = []
    room = 0
    for row in rows:
        if len(row.lines) > room:
            found.append([])
            room = LINES - 3
        found[-1].append(row)
        room -= len(row.lines)
    return found


def _says(column: Column) -> Callable[[Row], bool]:
    """Whether a row has anything in a column."""
    return lambda row: not row.foot and any(texts.get(column.key) for _, texts in row.lines)


def _within(row: Row, columns: Sequence[Column]) -> Row | None:
    """The lines of a row that have anything below these columns."""
    lines = [line for line in row.lines if any(line[1].get(c.key) for c in columns)]
    return Row(tuple(lines), row.rule, row.foot) if lines else None


def _seen(text: str) -> str:
    """About what a reader sees of a text."""
    return re.sub(r"\\[a-zA-Z]+|[{}$^]", "", text)


def _tabular(table: Table, look: Look, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    groups = [(name, [c for c in columns if c.group == name]) for name, _ in table.layout.groups]
    groups = [(name, mine) for name, mine in groups if mine]
    lines = [rf"\begin{{tabular}}{{l{''.join(look.kinds[c.key] for c in columns)}}}", r"\toprule"]
    if any(name for name, _ in groups):
        heads = [rf"\multicolumn{{{len(mine)}}}{{c}}{{{escape(name)}}}" for name, mine in groups]
        lines.append(" & ".join(["", *heads]) + r" \\")
        spans = _spans([len(mine) for _, mine in groups])
        lines.append("".join(rf"\cmidrule(lr){{{first}-{last}}}" for first, last in spans))
    lines.append(
        " & ".join([escape(table.layout.corner), *(_heading(look, c) for c in columns)]) + r" \\"
    )
    lines.append(r"\midrule")
    for place, row in enumerate(rows):
        lines += [r"\midrule"] if row.rule and place else []
        for label, texts in row.lines:
            lines.append(" & ".join([label, *(texts.get(c.key, "") for c in columns)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _heading(look: Look, column: Column) -> str:
    lines = [escape(line) for line in _folded(look, column)]
    stacked = r"\shortstack[b]{" + "\\\\ ".join(lines) + "}"
    return f"{{{lines[0] if len(lines) == 1 else stacked}}}"


def _spans(widths: Sequence[int]) -> list[tuple[int, int]]:
    """First and last column of every heading; the first column of all names the rows."""
    ends = [1 + sum(widths[: place + 1]) for place in range(len(widths))]
    return [(end - width + 1, end) for end, width in zip(ends, widths, strict=True)]


def _float(table: Table, look: Look, panels: Sequence[str], place: int, kind: str) -> str:
    """One float; the first has caption, label and notes."""
    told = title(table.title) if place else f"{title(table.title)}. {look.caption}"
    told = f"{told[:1].upper()}{told[1:]}"
    head = [rf"\begin{{{kind}}}", r"\centering"]
    head += [r"\addtocounter{table}{-1}"] if place else []
    head += [rf"\caption{{{escape(told)}{' (continued).' if place else ''}}}"]
    head += [] if place else [rf"\label{{tab:{table.paper}-{table.name}}}"]
    head += [
        r"\smallskip",
        r"\begin{threeparttable}",
        r"\footnotesize",
        r"\setlength{\tabcolsep}{3pt}",
    ]
    head += [SIUNITX] if "siunitx" in look.packages else []
    body = ("\n\n" + r"\medskip" + "\n\n").join(panels)
    notes = [rf"\item {note}" for note in look.notes] if not place else []
    told_notes = [r"\begin{tablenotes}[para]", *notes, r"\end{tablenotes}"] if notes else []
    tail = [*told_notes, r"\end{threeparttable}", rf"\end{{{kind}}}"]
    return "\n".join([*head, body, *tail]) + "\n"


# -- report ----------------------------------------------------------------------------------------


def _report(table: Table) -> Look:
    """Per row ours, the published numbers, the difference and the verdict."""
    best = {side: numbers.marks(table, side) for side in ("ours", "published")}
    rows = [_judged_row(table, row, best) for row in table.layout.rows]
    floors = numbers.floors(table)
    if floors:
        texts = {c.key: _plain(floors.get(c.key), c.digits) for c in table.layout.columns}
        rows.append(Row((("majority class", texts),), rule=True, foot=True))
    used = {
        letter for name, letter in MARKS.items() if table.frame["mark"].str.contains(name).any()
    }
    told = [f"$^{{{letter}}}$ {meant}." for letter, meant in MEANT.items() if letter in used]
    legend = numbers.legend(table.frame)
    notes = [*([escape(legend)] if legend else []), *told]
    kinds = dict.fromkeys((c.key for c in table.layout.columns), "c")
    return Look(rows, kinds, notes, "booktabs,threeparttable", table.caption)


def _plain(value: float | None, digits: int) -> str:
    return escape(numbers.plain(float("nan") if value is None else value, digits))


def _judged_row(table: Table, row: str, best: Mapping[str, Any]) -> Row:
    cells = [(c, table.cell(row, c.key)) for c in table.layout.columns]
    known = [(c, cell) for c, cell in cells if cell is not None]

    def side(which: str) -> dict[str, str]:
        show: Callable[..., str] = numbers.published if which == "published" else numbers.ours
        return {
            c.key: WRAP[best[which].get((row, c.key), "")] % escape(show(cell, c.digits))
            for c, cell in known
            if cell["source"] or which == "ours"
        }

    lines = [(escape(row), side("ours"))]
    if any(cell["source"] for _, cell in known):
        gaps = {c.key: escape(numbers.gap(cell, c.digits)) for c, cell in known}
        words = {c.key: _verdict(cell) for c, cell in known}
        lines.append((r"\quad published", side("published")))
        lines += [(r"\quad difference", gaps)] if any(gaps.values()) else []
        told = {word for word in words.values() if word} - {str(Verdict.MISSING)}
        lines += [(r"\quad verdict", words)] if told else []
    return Row(tuple(lines), rule=_first_aside(table, row))


def _verdict(cell: pd.Series) -> str:
    if not isinstance(cell["verdict"], str):
        return ""
    letters = ",".join(letter for name, letter in MARKS.items() if name in cell["mark"])
    return cell["verdict"] + (f"$^{{{letters}}}$" if letters else "")


def _first_aside(table: Table, row: str) -> bool:
    return bool(table.layout.aside) and row == table.layout.aside[0]
