"""Tables as LaTeX, in two styles: `report` has ours, the published numbers and the verdicts;
`paper` is what one would submit: ours alone, best and second marked. Tables that are wider than a
page are cut between their headings, and those that are longer go on in a second float.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import pandas as pd

from repfl.bench.report import numbers
from repfl.paper_tables.core.result import Column, Table

STYLES = ("report", "paper")
WIDTH = 500.0
"""Points between the margins of a page with two columns."""
GLYPH, GAP = 4.4, 6.0
"""Points of a character at footnote size, and between columns."""
LINES = 52
"""Lines that a float may have beside its caption and notes."""
TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "<": r"$<$",
    ">": r"$>$",
    "^": r"\^{}",
    "~": r"\~{}",
    "[": "{[}",  # the first of a row would else belong to the line break before it
    "*": "{*}",
    "\n": " ",
    "±": r"$\pm$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "×": r"$\times$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "λ": r"$\lambda$",
    "τ": r"$\tau$",
    "θ": r"$\theta$",
    "Δ": r"$\Delta$",
    "·": r"$\cdot$",
    "“": "``",
    "”": "''",
    numbers.MINUS: "$-$",
    numbers.BLANK: "--",
    **{mark: f"$^{{{word[0]}}}$" for word, mark in numbers.MARKS.items()},
}
MARKS = {"at the floor": "f", "best round on test": "b"}
"""What stands beside a verdict, as a letter."""
MEANT = {"f": "the printed number is at the floor", "b": "both are the best round on test images"}
WRAP = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}


def escape(text: str) -> str:
    """Plain text for LaTeX."""
    return re.sub("|".join(map(re.escape, TEX)), lambda m: TEX[m.group()], text)


@dataclass(frozen=True)
class Row:
    """A row of the table: a label, and one or more lines of texts, by column."""

    lines: tuple[tuple[str, Mapping[str, str]], ...]
    rule: bool = False
    """Whether a rule stands above it."""


@dataclass(frozen=True)
class Look:
    """What a style makes of a table."""

    rows: Sequence[Row]
    kinds: Mapping[str, str]
    """The LaTeX type of every column."""
    notes: Sequence[str]
    packages: str


def latex(table: Table, style: str = "report") -> str:
    """The whole text of a table, for a class with two columns."""
    look = _paper(table) if style == "paper" else _report(table)
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
    texts = [_float(table, look, body, place) for place, body in enumerate(floats)]
    return f"% \\usepackage{{{look.packages}}}\n" + "".join(texts)


def title(text: str) -> str:
    """A title without its number, which LaTeX gives."""
    return re.sub(r"^(Table|Figure) [0-9IVXLC]+: *", "", text)


# -- the page --------------------------------------------------------------------------------------


def _panels(table: Table, look: Look) -> list[tuple[list[Column], list[Row]]]:
    """Columns that fit beside each other, with the rows that fit below each other. Headings stay
    together where they can.
    """
    label = max(len(_seen(name)) for row in look.rows for name, _ in row.lines) * GLYPH + GAP

    def width(column: Column) -> float:
        texts = [texts.get(column.key, "") for row in look.rows for _, texts in row.lines]
        return max(map(len, map(_seen, [*texts, column.label]))) * GLYPH + GAP

    parts: list[list[Column]] = []
    used = WIDTH + 1
    for _, group in table.layout.groups:
        whole = sum(map(width, group))
        if used + whole > WIDTH or not parts:
            parts.append([])
            used = label
        for column in group:
            if parts[-1] and used + width(column) > WIDTH:
                parts.append([])
                used = label
            parts[-1].append(column)
            used += width(column)
    deepest = max((len(row.lines) for row in look.rows), default=1)
    many = max(1, (LINES - 3) // deepest)
    found = []
    for columns in parts:
        rows = [row for row in look.rows if _says(row, columns)]
        found += [(columns, rows[first : first + many]) for first in range(0, len(rows), many)]
    return found


def _says(row: Row, columns: Sequence[Column]) -> bool:
    """Whether a row has anything below these columns."""
    return any(texts.get(column.key) for _, texts in row.lines for column in columns)


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
        " & ".join([escape(table.layout.corner), *(f"{{{escape(c.label)}}}" for c in columns)])
        + r" \\"
    )
    lines.append(r"\midrule")
    for place, row in enumerate(rows):
        lines += [r"\midrule"] if row.rule and place else []
        for label, texts in row.lines:
            lines.append(" & ".join([label, *(texts.get(c.key, "") for c in columns)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"])


def _spans(widths: Sequence[int]) -> list[tuple[int, int]]:
    """First and last column of every heading; the first column of all names the rows."""
    ends = [1 + sum(widths[: place + 1]) for place in range(len(widths))]
    return [(end - width + 1, end) for end, width in zip(ends, widths, strict=True)]


def _float(table: Table, look: Look, panels: Sequence[str], place: int) -> str:
    """One float; the first has caption, label and notes."""
    told = f"{title(table.title)}. {table.caption}" if not place else f"{title(table.title)}"
    told = f"{told[:1].upper()}{told[1:]}"
    head = [r"\begin{table*}", r"\centering", r"\begin{threeparttable}", r"\footnotesize"]
    head += [r"\setlength{\tabcolsep}{3pt}"]
    head += [r"\sisetup{separate-uncertainty=true}"] if "siunitx" in look.packages else []
    head += [r"\addtocounter{table}{-1}"] if place else []
    head += [rf"\caption{{{escape(told)}{' (continued).' if place else ''}}}"]
    head += [] if place else [rf"\label{{tab:{table.paper}-{table.name}}}"]
    body = ("\n\n" + r"\medskip" + "\n\n").join(panels)
    notes = [rf"\item {note}" for note in look.notes] if not place else []
    told_notes = [r"\begin{tablenotes}", *notes, r"\end{tablenotes}"] if notes else []
    tail = [*told_notes, r"\end{threeparttable}", r"\end{table*}"]
    return "\n".join([*head, body, *tail]) + "\n"


# -- report ----------------------------------------------------------------------------------------


def _report(table: Table) -> Look:
    """Per row ours, the published numbers, the difference and the verdict."""
    best = {side: numbers.marks(table, side) for side in ("ours", "published")}
    rows = [_judged_row(table, row, best) for row in table.layout.rows]
    floors = numbers.floors(table)
    if floors:
        texts = {c.key: _plain(floors.get(c.key), c.digits) for c in table.layout.columns}
        rows.append(Row((("majority class", texts),), rule=True))
    used = {
        letter for name, letter in MARKS.items() if table.frame["mark"].str.contains(name).any()
    }
    told = [f"$^{{{letter}}}$ {meant}." for letter, meant in MEANT.items() if letter in used]
    legend = numbers.legend(table.frame)
    notes = [*([escape(legend)] if legend else []), *told]
    kinds = dict.fromkeys((c.key for c in table.layout.columns), "c")
    return Look(rows, kinds, notes, "booktabs,threeparttable")


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
        }

    lines = [(escape(row), side("ours"))]
    if any(cell["source"] for _, cell in known):
        gaps = {c.key: escape(numbers.gap(cell, c.digits)) for c, cell in known}
        words = {c.key: _verdict(cell) for c, cell in known}
        lines.append((r"\quad published", side("published")))
        lines += [(r"\quad difference", gaps)] if any(gaps.values()) else []
        lines.append((r"\quad verdict", words))
    return Row(tuple(lines), rule=_first_aside(table, row))


def _verdict(cell: pd.Series) -> str:
    if not isinstance(cell["verdict"], str):
        return ""
    letters = ",".join(letter for name, letter in MARKS.items() if name in cell["mark"])
    return cell["verdict"] + (f"$^{{{letters}}}$" if letters else "")


def _first_aside(table: Table, row: str) -> bool:
    return bool(table.layout.aside) and row == table.layout.aside[0]


# -- paper -----------------------------------------------------------------------------------------


def _paper(table: Table) -> Look:
    """Ours alone, with the deviation over seeds, in columns that align at the decimal point."""
    best = numbers.marks(table, "ours", alone=True)
    rows = []
    left_out = table.layout.aside if table.printed else ()
    for row in (name for name in table.layout.rows if name not in left_out):
        cells = [(c, table.cell(row, c.key)) for c in table.layout.columns]
        texts = {
            c.key: _aligned(cell, c, best.get((row, c.key), ""))
            for c, cell in cells
            if cell is not None
        }
        rows.append(Row(((escape(row), texts),), rule=_first_aside(table, row)))
    floors = numbers.floors(table)
    if floors:
        shown = {
            c.key: f"{floors[c.key]:.{c.digits}f}"
            for c in table.layout.columns
            if c.key in floors and isfinite(floors[c.key])
        }
        rows.append(Row((("Majority class", shown),), rule=True))
    kinds = {c.key: _kind(table, c) for c in table.layout.columns}
    return Look(rows, kinds, list(_said(table, best)), "booktabs,siunitx,threeparttable")


def _aligned(cell: pd.Series, column: Column, mark: str) -> str:
    """A number as siunitx reads it."""
    if not isfinite(cell["ours"]):
        return "{--}"
    text = f"{cell['ours']:.{column.digits}f}"
    if isfinite(cell["std"]):
        text += f" +- {cell['std']:.{column.digits}f}"
    if mark:
        return "{" + WRAP[mark] % rf"\num{{{text}}}" + "}"
    return text


def _kind(table: Table, column: Column) -> str:
    """The column of siunitx that fits its numbers."""
    mine = table.frame[(table.frame["column"] == column.key) & table.frame["ours"].notna()]
    whole = max((len(f"{abs(value):.0f}") for value in mine["ours"]), default=2)
    sign = "-" if (mine["ours"] < 0).any() else ""
    widest = f"{mine['std'].max():.0f}" if mine["std"].notna().any() else ""
    spread = f"({len(widest) + column.digits})" if widest else ""
    form = f"{sign}{whole}.{column.digits}{spread}"
    return f"S[table-format={form}]"


def _said(table: Table, best: Mapping[tuple[str, str], str]) -> Any:
    """What stands below a table."""
    done = table.frame[table.frame["ours"].notna()]
    if "best" in best.values():
        yield r"Best in bold, second underlined, within each column."
    if done["std"].notna().any():
        counts = sorted({int(n) for n, s in zip(done["seeds"], done["std"], strict=True) if s == s})
        yield (
            "Mean and standard deviation over"
            f" {' or '.join(map(str, counts))} runs with different seeds."
        )
    scales = sorted(set(done["scale"]) - {"paper"})
    if scales:
        where = {c.key: c.name for c in table.layout.columns}
        names = dict.fromkeys(where[key] for key in done.loc[done["scale"] != "paper", "column"])
        few = ", ".join(names) if len(names) <= 6 else f"{len(names)} columns"
        yield escape(
            f"In {few}, numbers are of the {' and '.join(scales)} scale: not the protocol of the"
            " paper."
        )
