"""Artefacts as files: csv, Markdown and LaTeX for tables, png and pdf for figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf

from repfl.bench.errors import one_line
from repfl.bench.report import latex, numbers
from repfl.paper_tables.core import figures, tables
from repfl.paper_tables.core.result import Absent, Claim, Column, Figure, Result, Table

Marks = Mapping[str, Mapping[tuple[str, str], numbers.Mark]]
"""What stands out on either side of a table."""

PUBLISHED = (
    "published", "published_std", "printed", "source",
    "difference", "gap_low", "gap_high", "verdict", "kind", "mark", "basis",
)  # fmt: skip
"""What a table says of published numbers, and leaves out where there are none."""

# -- csv -------------------------------------------------------------------------------------------


def csv(result: Table | Figure) -> str:
    """The numbers in long form."""
    if isinstance(result, Figure):
        return _csv(result.data)
    labels = {c.key: c.name for c in result.layout.columns}
    units = {c.key: c.unit for c in result.layout.columns}
    frame = result.frame.assign(
        label=result.frame["column"].map(labels),
        unit=result.frame["column"].map(units),
        ids=[" ".join(ids) for ids in result.frame["ids"]],
    )
    first = ("row", "column", "label", "unit")
    left_out = () if result.printed else PUBLISHED
    rest = [c for c in result.frame.columns if c not in (*first, *left_out)]
    return _csv(frame[[*first, *rest]])


def _csv(frame: pd.DataFrame) -> str:
    # joined with a part that has no line, a column of numbers becomes one of objects, which would
    # be written in full
    told = frame.drop(columns=["by_seed", "readings"], errors="ignore")
    return told.infer_objects().to_csv(index=False, float_format="%.6g", lineterminator="\n")


# -- Markdown --------------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """One table per heading, since Markdown has no grouped columns; best in bold, second
    underlined.
    """
    parts = [f"# {table.title}", table.caption]
    best = {side: numbers.marks(table, side) for side in ("ours", "published")}
    for group, columns in table.layout.groups:
        parts += ([f"## {group}"] if group else []) + [_markdown_group(table, columns, best)]
    parts += [_orderings(table)] if table.orderings else []
    parts += [] if table.printed or table.summary.empty else [_summary(table)]
    parts += [
        numbers.legend(table.frame),
        _bullets("Remarks", tables.remarks(table.frame, table.layout.columns)),
        _bullets("What it shows", list(table.findings)),
        _bullets("Notes", list(table.notes)),
        _bullets("Claims, in our words", [claim(c, table.paper) for c in table.claims]),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _name(text: str) -> str:
    """A name that a user may have chosen, in the cell of a table."""
    return re.sub(r"([\\|<*`])", r"\\\1", " ".join(text.split()))


def _markdown_group(table: Table, columns: tuple[Column, ...], best: Marks) -> str:
    head = [_name(table.layout.corner)]
    for column in columns:
        name = _name(column.label)
        head += [f"{name}: published", "ours", "difference", "verdict"] if table.printed else [name]
    rules = ["---:", "---:", "---:", "---"] if table.printed else ["---:"]
    lines = [head, ["---", *rules * len(columns)]]
    for row in table.layout.rows:
        line = [f"*{_name(row)}*" if row in table.layout.aside else _name(row)]
        for column in columns:
            cell = table.cell(row, column.key)
            shown = [""] * 4 if cell is None else _markdown_cell(cell, column, best)
            line += shown if table.printed else shown[1:2]
        lines.append(line)
    floors = numbers.floors(table)
    if any(c.key in floors for c in columns):
        line = ["majority class"]
        for column in columns:
            floor = numbers.plain(floors.get(column.key, float("nan")), column.digits)
            line += ["", floor, "", ""] if table.printed else [floor]
        lines.append(line)
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _markdown_cell(cell: pd.Series, column: Column, best: Marks) -> list[str]:
    wrap = {"best": "**{}**", "second": "<u>{}</u>", "": "{}"}
    key = (cell["row"], column.key)
    texts = {
        "published": numbers.published(cell, column.digits),
        "ours": numbers.ours(cell, column.digits),
    }
    shown = [wrap[best[side].get(key, "")].format(text) for side, text in texts.items()]
    return [*shown, *numbers.judged(cell, column.digits)]


def _summary(table: Table) -> str:
    """Statistics per row over all columns."""
    head = [_name(table.layout.corner), *map(_name, table.summary.columns)]
    lines = [head, ["---", *["---:"] * (len(head) - 1)]]
    for row, values in table.summary.iterrows():
        cells = [numbers.statistic(str(name), value) for name, value in values.items()]
        lines.append([_name(str(row)), *cells])
    rows = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"**Statistics over all columns**\n\n{rows}\n\n{table.tested}"


def _orderings(table: Table) -> str:
    labels = {c.key: c.name for c in table.layout.columns}
    head = [
        "Does the order of the rows hold?",
        "rows",
        "Kendall's τ",
        "best, published",
        "best, ours",
        "same",
    ]
    lines = [head, ["---", "---:", "---:", "---", "---", "---"]]
    for o in table.orderings:
        tau = numbers.BLANK if o.tau is None else numbers.signed(o.tau)
        names = (labels[o.column], ", ".join(o.winners_published), ", ".join(o.winners))
        column, published, ours = map(_name, names)
        lines.append([column, str(o.rows), tau, published, ours, "yes" if o.same_winner else "no"])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _bullets(title: str, lines: list[str]) -> str:
    return f"**{title}**\n\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


STANDINGS = {True: "holds", False: "does not hold", None: "open"}
POINTS = {True: "point to it", False: "point against it"}


KEPT: dict[bool | None, str] = {
    True: "kept by the paper scale",
    False: "not kept by the paper scale",
}
"""Of a claim that states settings."""


def standing(c: Claim) -> str:
    """What becomes of a claim; of one that is open, which way runs point that cannot decide."""
    if c.settings:
        return KEPT.get(c.holds, f"the {c.scale} scale has settings of its own")
    if c.suggests is None:
        return STANDINGS[c.holds]
    return f"open; runs of the {c.scale} scale, which decide nothing, {POINTS[c.suggests]}"


def claim(c: Claim, paper: str) -> str:
    """A claim in one line."""
    printed = "" if c.printed is None else f"; in the paper's own numbers it {STANDINGS[c.printed]}"
    return (
        f"{c.text}: {standing(c)}{printed}. {c.detail[:1].upper()}{c.detail[1:]}. ({paper}/{c.id})"
    )


# -- files -----------------------------------------------------------------------------------------


ENDINGS = ("csv", "md", "tex", "png", "pdf")


def write(
    results: Sequence[Result], out: Path, style: str = "report"
) -> tuple[list[Result], dict[str, list[str]], dict[str, str]]:
    """Write every form of every artefact; return the results, their files and what failed, by
    `paper/artefact`.

    An artefact that cannot be rendered becomes `Absent`, and what an earlier report drew of it
    goes.
    """
    shown, files, failed = [], {}, {}
    for result in results:
        folder = out / result.paper
        try:
            written = _write(result, folder, style)
        except OSError:  # the disk's fault, and the end of the whole report
            raise
        except Exception as error:  # one artefact's fault must not cost the others
            why = failed[result.key] = f"{type(error).__name__}: {one_line(error)}"
            about = result.paper, result.name, result.title
            result = Absent(*about, f"Could not be rendered ({why}).", result.scale)
            written = []
            for ending in ENDINGS:
                (folder / f"{result.name}.{ending}").unlink(missing_ok=True)
        shown.append(result)
        files[result.key] = [path.relative_to(out).as_posix() for path in written]
    return shown, files, failed


def _write(result: Result, folder: Path, style: str) -> list[Path]:
    """Write every form of one artefact."""
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(result, Absent):
        return []
    made = []
    texts = {"csv": csv(result)} if isinstance(result, Table | Figure) else {}
    if isinstance(result, Table):
        texts |= {"md": markdown(result), "tex": latex.latex(result, style)}
    for ending, text in texts.items():
        path = folder / f"{result.name}.{ending}"
        path.write_text(text, encoding="utf-8", newline="\n")
        made.append(path)
    if isinstance(result, Figure):
        with figures.style():
            made += _draw(result, folder)
    return made


def _draw(figure: Figure, folder: Path) -> list[Path]:
    """Both pictures. Each canvas writes its own format: `savefig` would draw everything once more
    before, to lay it out.
    """
    canvas = figure.draw(figures.sheet)
    if figure.stamp:
        canvas.suptitle(figure.stamp, fontsize=8, color="0.35", x=0.01, ha="left")
    png, pdf = (folder / f"{figure.name}.{ending}" for ending in ("png", "pdf"))
    FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
    canvas.set_layout_engine("none")  # it is laid out now
    FigureCanvasPdf(canvas).print_pdf(pdf, metadata={"CreationDate": None})
    return [png, pdf]
