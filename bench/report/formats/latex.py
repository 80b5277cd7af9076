"""A table as LaTeX: ours over the reported number, with the verdict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import wrap as fold

import pandas as pd

from repfl.bench.report.formats.formatting import MARKS as EVIDENCE_MARKS
from repfl.bench.report.formats.markdown import grid_of
from repfl.bench.report.numbers import MATCHES, Number
from repfl.bench.report.sheet import Sheet
from repfl.paper_tables.core.number_text import BLANK, MINUS
from repfl.paper_tables.core.statistics.verdict import Verdict

WIDTH, ROWS, HEAD = 96, 24, 14
"""Characters beside each other and rows below each other in one LaTeX tabular; characters of a line
of a heading.
"""
LETTERS: dict[str, str] = {
    Verdict.REPRODUCED: "r",
    MATCHES: "m",
    Verdict.DIFFERS: "d",
    Verdict.UNDECIDED: "u",
    Verdict.OTHER_SCALE: "n",
}
TEX = {
    "\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "[": "{[}", "*": "{*}", "\n": " ",
    "“": "``", "”": "''", MINUS: "$-$", BLANK: "--",
    **{letter: rf"\{letter}" for letter in "&%#_${}"},
    **dict(zip("<>±≤≥×↑↓→∞αβλτθΔ·", map("${}$".format, (
        "<", ">", r"\pm", r"\leq", r"\geq", r"\times", r"\uparrow", r"\downarrow", r"\rightarrow",
        r"\infty", r"\alpha", r"\beta", r"\lambda", r"\tau", r"\theta", r"\Delta", r"\cdot",
    )), strict=True)),
    **{mark: f"$^{{{word[0]}}}$" for word, mark in EVIDENCE_MARKS.items()},
}  # fmt: skip


def escape(text: str) -> str:
    """Escape plain text for LaTeX."""
    return re.sub("|".join(map(re.escape, TEX)), lambda m: TEX[m.group()], text)


def latex(sheet: Sheet) -> str:
    """Return a table for a page with two columns."""
    shown = grid_of(sheet, _text, sheet.layout.rows)
    heads = {head.key: (escape(head.group), _folded(head.label)) for head in sheet.layout.columns}
    parts = []
    for part in _panels(shown):
        names = [heads[key] for key in part.columns]
        flat = not any(group for group, _ in names)
        part.columns = (
            pd.Index([label for _, label in names]) if flat else pd.MultiIndex.from_tuples(names)
        )
        part.index = part.index.map(escape)
        form = part.style.to_latex(
            hrules=True, column_format="l" + "c" * part.shape[1], multicol_align="c"
        )
        corner = f"\\toprule\n{escape(sheet.layout.corner)} &"
        parts.append(form.replace("\\toprule\n &", corner, 1))
    title = re.sub(r"^(Table|Figure) [0-9IVXLC]+: *", "", sheet.title)
    title = title[:1].upper() + title[1:]
    floats = []
    for at, body in enumerate(parts):
        caption = f"{title} (continued)." if at else f"{title}. {sheet.caption}"
        label = "" if at else rf"\label{{tab:{sheet.paper}-{sheet.name}}}" + "\n"
        count = r"\addtocounter{table}{-1}" + "\n" if at else ""
        notes = "" if at else "\n".join(rf"\par {escape(note)}" for note in _notes(sheet))
        floats.append(
            "\\begin{table*}\n\\centering\n"
            f"{count}\\caption{{{escape(caption.strip())}}}\n{label}\\footnotesize\n{body}{notes}\n"
            "\\end{table*}\n"
        )
    return "% \\usepackage{booktabs}\n" + "".join(floats)


def _folded(label: str) -> str:
    """Return a heading, on several lines if it is long."""
    lines = [escape(line) for line in fold(label, HEAD, break_long_words=False)] or [""]
    return lines[0] if len(lines) == 1 else r"\shortstack{" + r"\\ ".join(lines) + "}"


def _panels(grid: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield parts of a grid that fit on a page, without rows that are empty there."""
    widths = [
        max([len(re.sub(r"\\[a-z]+|[{}$^]", "", t)) // 2 + 2 for t in grid[c]] + [9]) for c in grid
    ]
    width = WIDTH - max((len(row) for row in grid.index), default=0)
    at = 0
    while at < grid.shape[1]:
        end = at + 1
        while end < grid.shape[1] and sum(widths[at : end + 1]) <= width:
            end += 1
        part = grid.iloc[:, at:end]
        part = part[(part != "").any(axis="columns")]
        yield from (part.iloc[first : first + ROWS] for first in range(0, len(part), ROWS))
        at = end


MARKS = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}


def _text(number: Number) -> str:
    """Return ours over the reported number, with a letter for the verdict."""
    ours = MARKS[number.ours_mark] % escape(number.shown)
    if not number.source:
        return ours
    letter = LETTERS.get(number.verdict_text)
    reported = MARKS[number.printed_mark] % escape(number.printed_text)
    return rf"\shortstack{{{ours}{f'$^{{{letter}}}$' if letter else ''}\\{reported}}}"


def _notes(sheet: Sheet) -> Iterator[str]:
    """Yield the notes below a table."""
    verdicts = {number.verdict_text for number in sheet.numbers}
    letters = [f"{letter}: {word}" for word, letter in LETTERS.items() if word in verdicts]
    if letters:
        yield f"Ours (runs) over the reported number. {'; '.join(letters)}."
    yield from filter(None, [sheet.legend])
