"""Writing a report: the files of every artefact and the page above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from repfl.bench.errors import one_line
from repfl.bench.report import html, render
from repfl.paper_tables.core.result import Absent, Result


class Written(NamedTuple):
    """A report on disk."""

    page: Path
    failed: dict[str, str]
    """By `paper/artefact`, why it could not be rendered."""


def write_report(
    results: Sequence[Result], out: Path, provenance: Mapping[str, Any], commands: Mapping[str, str]
) -> Written:
    """Write every artefact and `index.html` under `out`; the same input gives the same bytes.

    `commands` maps `paper/artefact` to what regenerates it. `provenance` is shown as it comes,
    apart from four keys: `papers` maps a paper to {"title", "year"}, `results` is the folder of
    records, which the page links to, `measured` are the cells that have none there, `operating` is
    a table of how often verdicts err. An artefact that cannot be rendered becomes `Absent`, and
    what an earlier report drew of it goes.
    """
    out.mkdir(parents=True, exist_ok=True)
    shown, files, failed = [], {}, {}
    for result in results:
        folder = out / result.paper
        try:
            written = render.write_files(result, folder)
        except OSError:  # the disk's fault, and the end of the whole report
            raise
        except Exception as error:  # one artefact's fault must not cost the others
            failed[f"{result.paper}/{result.name}"] = f"{type(error).__name__}: {one_line(error)}"
            result, written = absent(result, error), []
            for ending in render.ENDINGS:
                (folder / f"{result.name}.{ending}").unlink(missing_ok=True)
        shown.append(result)
        files[result.key] = [path.relative_to(out).as_posix() for path in written]
    page = out / "index.html"
    page.write_text(
        html.page(shown, provenance, commands, out, files), encoding="utf-8", newline="\n"
    )
    return Written(page, failed)


def absent(result: Result, error: Exception) -> Absent:
    """An artefact whose numbers could not be laid out or drawn."""
    why = f"{type(error).__name__}: {one_line(error)}"
    return Absent(
        result.paper, result.name, result.title, f"Could not be rendered ({why}).", result.scale
    )
