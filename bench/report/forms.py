"""A table as Markdown and as LaTeX, from one grid of texts: ours over the reported number, with the
verdict; or, for a paper of one's own, ours alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from textwrap import wrap as fold

import pandas as pd

from repfl.bench.report import numbers
from repfl.paper_tables.core import tables
from repfl.paper_tables.core.result import Claim, Column, Table
from repfl.paper_tables.core.verdict import EXACT, Verdict

STYLES = ("report", "paper")
WIDTH, ROWS, HEAD = 96, 24, 14
"""Characters beside each other and rows below each other in one LaTeX tabular; characters of a line
of a heading.
"""
LETTERS = {
    Verdict.REPRODUCED: "r",
    Verdict.DIFFERS: "d",
    Verdict.UNDECIDED: "u",
    Verdict.OTHER_SCALE: "n",
}
POINTS = {True: "point to it", False: "point against it"}
TEX = {
    "\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}", "[": "{[}", "*": "{*}", "\n": " ",
    "“": "``", "”": "''", numbers.MINUS: "$-$", numbers.BLANK: "--",
    **{letter: rf"\{letter}" for letter in "&%#_${}"},
    **dict(zip("<>±≤≥×↑↓→∞αβλτθΔ·", map("${}$".format, (
        "<", ">", r"\pm", r"\leq", r"\geq", r"\times", r"\uparrow", r"\downarrow", r"\rightarrow",
        r"\infty", r"\alpha", r"\beta", r"\lambda", r"\tau", r"\theta", r"\Delta", r"\cdot",
    )), strict=True)),
    **{mark: f"$^{{{word[0]}}}$" for word, mark in numbers.MARKS.items()},
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


def _grid(
    table: Table,
    text: Callable[[pd.Series, Column, str, str], str],
    rows: Sequence[str] | None = None,
    alone: bool = False,
) -> pd.DataFrame:
    """Return the texts of a table by row and column, the majority class last. `text` gets a cell,
    its column, and the marks of ours and of the reported number.
    """
    ours, published = numbers.marks(table, "ours", alone=alone), numbers.marks(table, "published")
    floors = numbers.floors(table)
    lines: dict[str, list[str]] = {}
    for row in table.layout.rows if rows is None else rows:
        cells = [(c, table.cell(row, c.key), (row, c.key)) for c in table.layout.columns]
        lines[row] = [
            "" if cell is None else text(cell, c, ours.get(key, ""), published.get(key, ""))
            for c, cell, key in cells
        ]
    if floors:
        lines["majority class"] = [
            numbers.plain(floors[c.key], c.digits) if c.key in floors else ""
            for c in table.layout.columns
        ]
    keys = [c.key for c in table.layout.columns]
    return pd.DataFrame.from_dict(lines, orient="index", columns=keys)


# -- Markdown --------------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """Return one Markdown table per heading; best in bold, second underlined."""
    parts = [f"# {table.title}", table.caption]
    if table.printed:
        parts.append("Each cell: ours (runs), the reported number, difference and verdict.")
    grid = _grid(table, _markdown_cell)
    rows = [f"*{name(row)}*" if row in table.layout.aside else name(row) for row in grid.index]
    for group, columns in table.layout.groups:
        cells = grid[[c.key for c in columns]].to_numpy().tolist()
        head = [table.layout.corner, *(c.label for c in columns)]
        lines = [[row, *rest] for row, rest in zip(rows, cells, strict=True) if any(rest)]
        parts += ([f"## {group}"] if group else []) + [_table(map(name, head), lines)]
    if table.orderings:
        parts.append(_orderings(table))
    if not table.printed and not table.summary.empty:
        parts.append(f"**Statistics over all columns**\n\n{_summary(table)}\n\n{table.tested}")
    parts += [
        numbers.legend(table.frame),
        _bullets("Remarks", tables.remarks(table.frame, table.layout.columns)),
        _bullets("What our runs show", list(table.findings)),
        _bullets("Notes", list(table.notes)),
        _bullets("Claims, in our words", [claim(c, table.paper) for c in table.claims]),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _markdown_cell(cell: pd.Series, column: Column, ours: str, published: str) -> str:
    lines = [MARKED[ours].format(name(numbers.ours(cell, column.digits)))]
    if cell["source"]:
        judged = " ".join(filter(None, numbers.judged(cell, column.digits)))
        reported = name(numbers.published(cell, column.digits))
        lines += [MARKED[published].format(reported), name(judged)]
    return "<br>".join(lines)


MARKED = {"best": "**{}**", "second": "<u>{}</u>", "": "{}"}


def name(text: str) -> str:
    """Escape text for the cell of a Markdown table."""
    return re.sub(r"([\\|<*`])", r"\\\1", " ".join(text.split()))


def _table(head: Iterator[str] | map[str], rows: Sequence[Sequence[str]]) -> str:
    first = list(head)
    lines = [first, ["---", *["---:"] * (len(first) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _summary(table: Table) -> str:
    """Statistics per row over all columns."""
    rows = [
        [name(str(row)), *(numbers.statistic(str(key), value) for key, value in values.items())]
        for row, values in table.summary.iterrows()
    ]
    return _table(map(name, [table.layout.corner, *map(str, table.summary.columns)]), rows)


def _orderings(table: Table) -> str:
    labels = {c.key: c.name for c in table.layout.columns}
    head = [
        "Does the order of the rows hold?",
        "rows",
        "Kendall's τ",
        "best, reported",
        "best, ours",
    ]
    rows = [
        [
            name(labels[o.column]),
            str(o.rows),
            numbers.BLANK if o.tau is None else numbers.signed(o.tau),
            name(", ".join(o.winners_published)),
            name(", ".join(o.winners)),
        ]
        for o in table.orderings
    ]
    return _table(map(str, head), rows)


def _bullets(title: str, lines: list[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


# -- LaTeX -----------------------------------------------------------------------------------------


def escape(text: str) -> str:
    """Escape plain text for LaTeX."""
    return re.sub("|".join(map(re.escape, TEX)), lambda m: TEX[m.group()], text)


def latex(table: Table, style: str = "report") -> str:
    """Return a table for a page with two columns. `paper` has ours alone, without rows and columns
    that are empty or variants.
    """
    if style == "paper":
        hidden = table.layout.aside if table.printed else ()
        shown = _grid(table, _ours, [r for r in table.layout.rows if r not in hidden], alone=True)
        with_number = set(table.frame.loc[table.frame["ours"].notna(), "column"])
        shown = shown[[key for key in shown if key in with_number]]
    else:
        shown = _grid(table, _both)
    heads = {c.key: (escape(c.group), _folded(c.label)) for c in table.layout.columns}
    parts = []
    for part in _panels(shown):
        names = [heads[key] for key in part.columns]
        flat = not any(group for group, _ in names)
        part.columns = pd.Index([label for _, label in names]) if flat else _grouped(names)
        part.index = part.index.map(escape)
        form = part.style.to_latex(
            hrules=True, column_format="l" + "c" * part.shape[1], multicol_align="c"
        )
        corner = f"\\toprule\n{escape(table.layout.corner)} &"
        parts.append(form.replace("\\toprule\n &", corner, 1))
    title = re.sub(r"^(Table|Figure) [0-9IVXLC]+: *", "", table.title)
    title = title[:1].upper() + title[1:]
    floats = []
    for at, body in enumerate(parts):
        caption = (
            f"{title} (continued)."
            if at
            else f"{title}. {table.caption if style == 'report' else ''}"
        )
        label = "" if at else rf"\label{{tab:{table.paper}-{table.name}}}" + "\n"
        count = r"\addtocounter{table}{-1}" + "\n" if at else ""
        notes = "" if at else "\n".join(rf"\par {escape(note)}" for note in _notes(table, style))
        floats.append(
            "\\begin{table*}\n\\centering\n"
            f"{count}\\caption{{{escape(caption.strip())}}}\n{label}\\footnotesize\n{body}{notes}\n"
            "\\end{table*}\n"
        )
    return "% \\usepackage{booktabs}\n" + "".join(floats)


def _grouped(names: Sequence[tuple[str, str]]) -> pd.MultiIndex:
    return pd.MultiIndex.from_tuples(names)


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


def _both(cell: pd.Series, column: Column, ours: str, published: str) -> str:
    """Ours over the reported number, with a letter for the verdict."""
    told = MARKS[ours] % escape(numbers.ours(cell, column.digits))
    if not cell["source"]:
        return told
    letter = LETTERS.get(cell["verdict"])
    reported = MARKS[published] % escape(numbers.published(cell, column.digits))
    return rf"\shortstack{{{told}{f'$^{{{letter}}}$' if letter else ''}\\{reported}}}"


def _ours(cell: pd.Series, column: Column, ours: str, _: str) -> str:
    """Ours with the deviation over seeds."""
    if not isfinite(cell["ours"]):
        return "--"
    return MARKS[ours] % escape(numbers.spread(cell["ours"], cell["std"], column.digits))


def _notes(table: Table, style: str) -> Iterator[str]:
    """What stands below a table."""
    frame = table.frame
    if style == "report":
        told = [
            f"{letter}: {word}"
            for word, letter in LETTERS.items()
            if (frame["verdict"] == word).any()
        ]
        if told:
            yield f"Ours (runs) over the reported number. {'; '.join(told)}."
        yield from filter(None, [numbers.legend(frame)])
        return
    done = frame[frame["ours"].notna() & (frame["ids"].map(len) > 0)]
    if done["std"].notna().any():
        counts = sorted({int(n) for n, s in zip(done["seeds"], done["std"], strict=True) if s == s})
        yield f"Mean and standard deviation over {' or '.join(map(str, counts))} runs."
    small = done[(done["scale"] != "paper") & ~done["kind"].isin(EXACT)]
    if len(small):
        names = {c.key: c.name for c in table.layout.columns}
        where = "; ".join(dict.fromkeys(names[key] for key in small["column"]))
        word = " and ".join(sorted(set(small["scale"])))
        yield f"In {where}, numbers are of the {word} scale: not the protocol of the paper."
    empty = [c.name for c in table.layout.columns if c.key not in set(done["column"])]
    if empty:
        yield f"Left out, without any number: {'; '.join(empty)}."
    if "best" in numbers.marks(table, "ours", alone=True).values():
        yield "Best in bold, second underlined, within each column."
