"""Tables and figures as files: csv, Markdown and LaTeX for tables; SVG, PNG and PDF for figures."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG

from repfl.bench.errors import one_line
from repfl.bench.report import forms
from repfl.paper_tables.core import figures
from repfl.paper_tables.core.result import Absent, Figure, Result, Table
from repfl.paper_tables.core.verdict import EXACT

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


# -- toy runs --------------------------------------------------------------------------------------

HIDDEN = {"published": nan, "published_std": nan, "printed": "", "source": "", "difference": nan,
          "gap_low": nan, "gap_high": nan, "verdict": None, "mark": ""}  # fmt: skip


def as_toy(table: Table) -> Table:
    """Return a table of toy runs as readers see it: columns of trained numbers say that they are of
    digits, and no reported number stands beside them.
    """
    if table.scale != "smoke" or not table.printed:
        return table
    frame = table.frame.astype({"verdict": object})
    trained = ~frame["kind"].isin([*map(str, EXACT)])
    frame.loc[trained, list(HIDDEN)] = pd.DataFrame(HIDDEN, index=frame.index[trained])
    digits = set(frame.loc[trained, "column"])
    columns = [
        replace(
            c,
            group=f"digits (for {c.group})" if c.group else "",
            label=c.label if c.group else f"digits (for {c.label})",
        )
        if c.key in digits
        else c
        for c in table.layout.columns
    ]
    return replace(table, frame=frame, layout=replace(table.layout, columns=tuple(columns)))


# -- files -----------------------------------------------------------------------------------------


ENDINGS = ("csv", "md", "tex", "svg", "png", "pdf")


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
        shown = as_toy(result)
        texts |= {"md": forms.markdown(shown), "tex": forms.latex(shown, style)}
    for ending, text in texts.items():
        path = folder / f"{result.name}.{ending}"
        path.write_text(text, encoding="utf-8", newline="\n")
        made.append(path)
    if isinstance(result, Figure):
        with figures.style():
            made += _draw(result, folder)
    return made


def _draw(figure: Figure, folder: Path) -> list[Path]:
    """Draw a figure once. Each canvas writes its own format: `savefig` would draw it again."""
    canvas = figure.draw(figures.sheet)
    if figure.stamp:
        canvas.suptitle(figure.stamp, fontsize=8, color="0.35", x=0.01, ha="left")
    png, pdf, svg = (folder / f"{figure.name}.{ending}" for ending in ("png", "pdf", "svg"))
    FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
    canvas.set_layout_engine("none")  # it is laid out now
    FigureCanvasPdf(canvas).print_pdf(pdf, metadata={"CreationDate": None})
    written = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.key}):
        FigureCanvasSVG(canvas).print_svg(written, metadata={"Date": None, "Creator": None})
    svg.write_text(inline(written.getvalue()), encoding="utf-8", newline="\n")
    return [svg, png, pdf]


INK = re.compile(r"(fill|stroke): ?(#000000|#0f0f0f|#262626|#595959|black)\b")


def inline(text: str) -> str:
    """Return SVG for a page: without a prologue and a background, in the page's own colour."""
    text = text[text.index("<svg") :]
    text = re.sub(r'<g id="patch_1">.*?</g>', "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"fill: ?#ffffff(?=[;\"])", "fill: none", text)
    text = INK.sub(r"\1: currentColor", text)
    text = text.replace("stroke: #cccccc", "stroke: currentColor; stroke-opacity: 0.2")
    text = re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
    return re.sub(r"(\d+\.\d\d)\d+", r"\1", text)
