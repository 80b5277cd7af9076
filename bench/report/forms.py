"""A table as Markdown and as LaTeX, from one grid of texts: ours over the reported number, with the
verdict; or, for a paper of one's own, ours alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap as fold

import pandas as pd

from repfl.bench.report.numbers import BLANK, MINUS, PLUS_MINUS
from repfl.bench.report.numbers import MARKS as FOUNDED
from repfl.bench.report.sheet import Number, Sheet
from repfl.paper_tables.core.result import Claim
from repfl.paper_tables.core.verdict import EXACT, Verdict

STYLES = ("report", "paper")
WIDTH, ROWS, HEAD = 96, 24, 14
"""Characters beside each other and rows below each other in one LaTeX tabular; characters of a line
of a heading.
"""
LETTERS: dict[str, str] = {
    Verdict.REPRODUCED: "r",
    Verdict.DIFFERS: "d",
    Verdict.UNDECIDED: "u",
    Verdict.OTHER_SCALE: "n",
}
POINTS = {True: "point to it", False: "point against it"}
TEX = {
    "\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "[": "{[}", "*": "{*}", "\n": " ",
    "“": "``", "”": "''", MINUS: "$-$", BLANK: "--",
    **{letter: rf"\{letter}" for letter in "&%#_${}"},
    **dict(zip("<>±≤≥×↑↓→∞αβλτθΔ·", map("${}$".format, (
        "<", ">", r"\pm", r"\leq", r"\geq", r"\times", r"\uparrow", r"\downarrow", r"\rightarrow",
        r"\infty", r"\alpha", r"\beta", r"\lambda", r"\tau", r"\theta", r"\Delta", r"\cdot",
    )), strict=True)),
    **{mark: f"$^{{{word[0]}}}$" for word, mark in FOUNDED.items()},
}  # fmt: skip

# -- claims ----------------------------------------------------------------------------------------


def standing(c: Claim) -> str:
    """Return what became of a claim; if undecided, which way reduced runs point."""
    if c.settings:
        kept = {True: "kept by our full-scale runs", False: "not kept by our full-scale runs"}
        return kept.get(c.holds, f"the {c.scale} scale has settings of its own")  # type: ignore[arg-type]
    if c.suggests is None:
        return str(c.state)
    runs = "runs of one or two seeds" if c.few_seeds and c.scale == "paper" else "reduced runs"
    return f"{c.state}; {runs} (not decisive) {POINTS[c.suggests]}"


def claim(c: Claim, paper: str) -> str:
    """Return a claim in one line."""
    printed = "; in the paper's own numbers it holds" if c.printed else ""
    whose = "Our own check: " if c.ours else ""
    detail = f"{c.detail[:1].upper()}{c.detail[1:]}"
    return f"{whose}{c.text}: {standing(c)}{printed}. {detail}. ({paper}/{c.id})"


# -- the grid of texts -----------------------------------------------------------------------------

Cell = Callable[[Number], str]


def _grid(sheet: Sheet, text: Cell, rows: Sequence[str]) -> pd.DataFrame:
    """Return the texts of a table by row and column, the majority class last."""
    numbers, keys = sheet.at(), [head.key for head in sheet.columns]
    cells = {row: [numbers.get((row, key)) for key in keys] for row in rows}
    lines = {row: [text(n) if n else "" for n in found] for row, found in cells.items()}
    if any(head.floor for head in sheet.columns):
        lines["majority class"] = [head.floor for head in sheet.columns]
    return pd.DataFrame.from_dict(lines, orient="index", columns=keys)


# -- Markdown --------------------------------------------------------------------------------------


def markdown(sheet: Sheet) -> str:
    """Return one Markdown table per heading; best in bold, second underlined."""
    parts = [f"# {sheet.title}", sheet.caption]
    if sheet.judged:
        parts.append("Each cell: ours (runs), the reported number, difference and verdict.")
    grid = _grid(sheet, _markdown_cell, sheet.rows)
    rows = [f"*{name(row)}*" if row in sheet.aside else name(row) for row in grid.index]
    for group, heads in sheet.groups:
        cells = grid[[head.key for head in heads]].to_numpy().tolist()
        lines = [[row, *rest] for row, rest in zip(rows, cells, strict=True) if any(rest)]
        top = [name(sheet.corner), *(name(head.label) for head in heads)]
        parts += ([f"## {group}"] if group else []) + [_table(top, lines)]
    if sheet.orders:
        parts.append(
            _table(ORDERS, [[name(text) for text in vars(o).values()] for o in sheet.orders])
        )
    if sheet.summary and not sheet.judged:
        head, *lines = [[name(text) for text in line] for line in sheet.summary]
        told = _table([name(sheet.corner), *head[1:]], lines)
        parts.append(f"**Statistics over all columns**\n\n{told}\n\n{sheet.tested}")
    parts += [
        sheet.legend,
        _bullets("Remarks", sheet.remarks),
        _bullets("What our runs show", sheet.findings),
        _bullets("Notes", sheet.notes),
        _bullets("Claims, in our words", [claim.line for claim in sheet.claims]),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


ORDERS = ["Does the order of the rows hold?", "rows", "Kendall's τ", "best, reported", "best, ours"]


def _markdown_cell(number: Number) -> str:
    lines = [MARKED[number.ours_mark].format(name(number.shown))]
    if number.source:
        judged = " ".join(filter(None, (number.difference, number.verdict_with_mark)))
        lines += [MARKED[number.published_mark].format(name(number.published)), name(judged)]
    return "<br>".join(lines)


MARKED = {"best": "**{}**", "second": "<u>{}</u>", "": "{}"}


def name(text: str) -> str:
    """Escape text for the cell of a Markdown table."""
    return re.sub(r"([\\|<*`])", r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bullets(title: str, lines: Sequence[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


# -- LaTeX -----------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Escape plain text for LaTeX."""
    return re.sub("|".join(map(re.escape, TEX)), lambda m: TEX[m.group()], text)


def latex(sheet: Sheet, style: str = "report") -> str:
    """Return a table for a page with two columns. `paper` has ours alone, without rows and columns
    that are empty or variants.
    """
    if style == "paper":
        hidden = sheet.aside if sheet.judged else ()
        shown = _grid(sheet, _ours, [row for row in sheet.rows if row not in hidden])
        measured = {number.column for number in sheet.numbers if number.measured}
        shown = shown[[key for key in shown if key in measured]]
    else:
        shown = _grid(sheet, _both, sheet.rows)
    heads = {head.key: (escape(head.group), _folded(head.label)) for head in sheet.columns}
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
        corner = f"\\toprule\n{escape(sheet.corner)} &"
        parts.append(form.replace("\\toprule\n &", corner, 1))
    title = re.sub(r"^(Table|Figure) [0-9IVXLC]+: *", "", sheet.title)
    title = title[:1].upper() + title[1:]
    floats = []
    for at, body in enumerate(parts):
        caption = (
            f"{title} (continued)."
            if at
            else f"{title}. {sheet.caption if style == 'report' else ''}"
        )
        label = "" if at else rf"\label{{tab:{sheet.paper}-{sheet.name}}}" + "\n"
        count = r"\addtocounter{table}{-1}" + "\n" if at else ""
        notes = "" if at else "\n".join(rf"\par {escape(note)}" for note in _notes(sheet, style))
        floats.append(
            "\\begin{table*}\n\\centering\n"
            f"{count}\\caption{{{escape(caption.strip())}}}\n{label}\\footnotesize\n{body}{notes}\n"
            "\\end{table*}\n"
        )
    return "% \\usepackage{booktabs}\n" + "".join(floats)


def _folded(label: str) -> str:
    """A heading on several lines if it is long."""
    lines = [escape(line) for line in fold(label, HEAD, break_long_words=False)] or [""]
    return lines[0] if len(lines) == 1 else r"\shortstack{" + r"\\ ".join(lines) + "}"


def _panels(grid: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Parts of a grid that fit on a page, without rows that are empty there."""
    widths = [
        max([len(re.sub(r"\\[a-z]+|[{}$^]", "", t)) // 2 + 2 for t in grid[c]] + [9]) for c in grid
    ]
    room = WIDTH - max((len(row) for row in grid.index), default=0)
    at = 0
    while at < grid.shape[1]:
        end = at + 1
        while end < grid.shape[1] and sum(widths[at : end + 1]) <= room:
            end += 1
        part = grid.iloc[:, at:end]
        part = part[(part != "").any(axis="columns")]
        yield from (part.iloc[first : first + ROWS] for first in range(0, len(part), ROWS))
        at = end


MARKS = {"best": r"\textbf{%s}", "second": r"\underline{%s}", "": "%s"}


def _both(number: Number) -> str:
    """Ours over the reported number, with a letter for the verdict."""
    told = MARKS[number.ours_mark] % escape(number.shown)
    if not number.source:
        return told
    letter = LETTERS.get(number.verdict)
    reported = MARKS[number.published_mark] % escape(number.published)
    return rf"\shortstack{{{told}{f'$^{{{letter}}}$' if letter else ''}\\{reported}}}"


def _ours(number: Number) -> str:
    """Ours with the deviation over seeds."""
    return MARKS[number.ours_mark] % escape(number.ours or BLANK)


def _notes(sheet: Sheet, style: str) -> Iterator[str]:
    """What stands below a table."""
    if style == "report":
        given = {number.verdict for number in sheet.numbers}
        told = [f"{letter}: {word}" for word, letter in LETTERS.items() if word in given]
        if told:
            yield f"Ours (runs) over the reported number. {'; '.join(told)}."
        yield from filter(None, [sheet.legend])
        return
    done = [number for number in sheet.numbers if number.measured and number.ids]
    counts = sorted({number.seeds for number in done if PLUS_MINUS in number.ours})
    if counts:
        yield f"Mean and standard deviation over {' or '.join(map(str, counts))} runs."
    small = [number for number in done if number.scale != "paper" and number.kind not in EXACT]
    if small and sheet.of_a_paper:
        where = "; ".join(dict.fromkeys(number.where for number in small))
        word = " and ".join(sorted({number.scale for number in small}))
        yield f"In {where}, numbers are of the {word} scale: not the protocol of the paper."
    known = {number.column for number in done}
    if empty := [head.name for head in sheet.columns if head.key not in known]:
        yield f"Left out, without any number: {'; '.join(empty)}."
    if any(number.ours_mark == "best" for number in sheet.numbers):
        yield "Best in bold, second underlined, within each column."
