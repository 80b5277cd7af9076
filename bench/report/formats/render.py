"""Tables and figures as files: csv, Markdown and LaTeX for tables; SVG, PNG and PDF for figures."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import fill

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG

from repfl.bench.errors import with_class
from repfl.bench.report import numbers
from repfl.bench.report.formats import pieces
from repfl.bench.report.formats.latex import latex
from repfl.bench.report.formats.markdown import markdown
from repfl.bench.report.sheet import Sheet
from repfl.bench.store import provenance
from repfl.paper_tables.core.drawing import figure_style
from repfl.paper_tables.core.result import Absent, Figure, Result, Table

# -- files -----------------------------------------------------------------------------------------


TITLE_WIDTH = 14
"""Characters of a title on an inch of a figure."""
SUFFIXES = ("csv", "md", "tex", "svg", "png", "pdf")


def write(
    results: Sequence[Result], make_sheet: Callable[[Result], Sheet], out: Path
) -> tuple[list[Sheet], dict[str, str]]:
    """Write every form of every artefact; return the sheets, and what failed by `paper/artefact`.

    An artefact that cannot be rendered becomes `Absent`, and what an earlier report drew of it
    goes.
    """
    sheets, failed = [], {}
    for result in results:
        stem = out / result.paper / result.name
        stem.parent.mkdir(parents=True, exist_ok=True)
        try:
            sheet = make_sheet(result)
            written = _write(result, sheet, stem)
        except OSError:  # the disk's fault, and the end of the whole report
            raise
        except Exception as error:  # one artefact's fault must not cost the others
            why = failed[result.key] = with_class(error)
            names = result.paper, result.name, result.title
            sheet = make_sheet(Absent(*names, f"Could not be rendered ({why}).", result.scale))
            written = []
            for suffix in SUFFIXES:
                _with_suffix(stem, suffix).unlink(missing_ok=True)
        files = tuple(path.relative_to(out).as_posix() for path in written)
        sheets.append(replace(sheet, files=files))
    return sheets, failed


def _with_suffix(stem: Path, suffix: str) -> Path:
    return stem.with_name(f"{stem.name}.{suffix}")


def _write(result: Result, sheet: Sheet, stem: Path) -> list[Path]:
    """Write every form of one artefact."""
    texts = {}
    if isinstance(result, Table):
        texts = {
            "csv": numbers.as_csv(numbers.frame(sheet.numbers)),
            "md": markdown(sheet),
            "tex": latex(sheet),
        }
    elif isinstance(result, Figure):
        texts = {"csv": numbers.as_csv(result.data)}
        if sheet.curves:
            texts["md"] = markdown(sheet)
    for suffix, text in texts.items():
        _with_suffix(stem, suffix).write_text(text, encoding="utf-8", newline="\n")
    paths = [_with_suffix(stem, suffix) for suffix in texts]
    if isinstance(result, Figure):
        with figure_style.style():
            paths += _draw(result, stem)
    return paths


def _filled(text: str, width: int) -> str:
    """Return text in lines that break neither a name nor between a number and its unit."""
    return fill(text.replace(" %", "\N{NO-BREAK SPACE}%"), width, break_on_hyphens=False)


def _draw(figure: Figure, stem: Path) -> list[Path]:
    """Draw a figure once. Each canvas writes its own format: `savefig` would draw it again."""
    canvas = figure.draw(figure_style.new_canvas)
    texts = [canvas.get_suptitle().replace("\n", " ")]
    if texts == [""]:
        width = round(TITLE_WIDTH * canvas.get_figwidth())
        says = figure.findings[0] if figure.findings else figure.title
        weight = "reduced runs decide nothing" if figure.scale == "desk" else ""
        version = f"repfl {(provenance.commit()['commit'] or '')[:12]}".strip()
        source = " · ".join(filter(None, (figure.stamp, weight, figure.key, version)))
        texts = [says, source]
        title = "\n".join(_filled(text, width) for text in texts)
        canvas.suptitle(title, fontsize=9, x=0.01, ha="left")
    png, pdf, svg = (_with_suffix(stem, suffix) for suffix in ("png", "pdf", "svg"))
    FigureCanvasAgg(canvas).print_png(png, metadata={"Software": None})
    canvas.set_layout_engine("none")  # it is laid out now
    FigureCanvasPdf(canvas).print_pdf(pdf, metadata={"CreationDate": None})
    noted, written = pieces.prepare(canvas, texts), io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": figure.key}):
        FigureCanvasSVG(canvas).print_svg(written, metadata={"Date": None, "Creator": None})
    svg.write_text(inline(written.getvalue(), noted), encoding="utf-8", newline="\n")
    return [svg, png, pdf]


PIXELS = 1.25
"""On a page, for a point of a figure: its smallest text, of 7.5 points, has nine pixels."""
TAG, DECIMALS = re.compile(r"<[^>]*>"), re.compile(r"(\d+\.\d\d)\d+")
"""Only coordinates are shortened, which stand in tags: labels are text."""
FONTS = "'DejaVu Sans', Verdana, sans-serif"
"""Said once: phones have not the first."""
DARK = re.compile(r"(fill|stroke): ?(#000000|#0f0f0f|#262626|#595959|black)\b")


def inline(text: str, noted: str = "") -> str:
    """Return SVG for a page: without a prologue and a background, in the page's own colour, with
    its pieces as `noted`. Its width is such that text has one size in all figures.
    """
    text = text[text.index("<svg") :]
    text = text.replace(f'<g id="{pieces.REPEATED}">', '<g display="none">')
    text = re.sub(r'<g id="patch_1">.*?</g>', "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"fill: ?#ffffff(?=[;\"])", "fill: none", text)
    text = DARK.sub(r"\1: currentColor", text)
    text = text.replace("stroke: #cccccc", "stroke: currentColor; stroke-opacity: 0.2")
    text = re.sub(r' height="[\d.]+pt"', "", text, count=1)
    text = re.sub(
        r' width="([\d.]+)pt"', lambda w: f' width="{PIXELS * float(w[1]):.0f}"', text, count=1
    )
    text = TAG.sub(lambda tag: DECIMALS.sub(r"\1", tag[0]), text)
    text = text.replace("; font-family: 'DejaVu Sans'", "")
    return text.replace("<svg", f'<svg font-family="{FONTS}"{noted}', 1)
