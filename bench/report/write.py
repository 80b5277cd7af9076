"""Writing a report: the files of every artefact and the page above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from repfl.bench.report import html, render
from repfl.paper_tables.core.result import Absent, Result


def write_report(
    results: Sequence[Result], out: Path, provenance: Mapping[str, Any], commands: Mapping[str, str]
) -> Path:
    """Write every artefact and `index.html` under `out`; the same input gives the same bytes.

    `commands` maps `paper/artefact` to what regenerates it. `provenance` is shown as it comes,
    apart from four keys: `papers` maps a paper to {"title", "year"}, `results` is the folder of
    records, which the page links to, `measured` are the cells that have none there, `operating` is
    a table of how often verdicts err. An artefact that cannot be drawn becomes `Absent`.
    """
    out.mkdir(parents=True, exist_ok=True)
    shown, files = [], {}
    for result in results:
        folder = out / result.paper
        try:
            written = render.write_files(result, folder)
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            result, written = absent(result, error), []
        shown.append(result)
        files[result.key] = [path.relative_to(out).as_posix() for path in written]
    page = out / "index.html"
    page.write_text(
        html.page(shown, provenance, commands, out, files), encoding="utf-8", newline="\n"
    )
    return page


def absent(result: Result, error: Exception) -> Absent:
    """An artefact whose numbers could not be laid out or drawn."""
    why = f"{type(error).__name__}: {error}".splitlines()[0]
    return Absent(
        result.paper, result.name, result.title, f"Could not be rendered ({why}).", result.scale
    )
