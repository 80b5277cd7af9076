"""Writing a report: the files of every artefact, and the pages that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.errors import one_line
from repfl.bench.report.cache import Cache, code, digest

if TYPE_CHECKING:
    from repfl.bench.report.sheet import Sheet
    from repfl.paper_tables.core.result import Absent, Result


@dataclass(frozen=True)
class Book:
    """Everything that the pages of a report show."""

    sheets: Sequence[Sheet]
    papers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper: title, year, and where it and its code are."""
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By cell, everything that is known of a run."""
    open: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By paper, the cells of its own scale that nobody has computed, and their cost."""
    test: Mapping[str, Any] = field(default_factory=dict)
    """The self-test."""
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    operating: Sequence[Sequence[str]] = ()
    records: str = ""
    """The folder of records, relative to the report."""


def write_artefacts(
    results: Sequence[Result], out: Path, evidence: Mapping[str, Any], style: str = "report"
) -> tuple[list[Result], dict[str, list[str]], dict[str, str]]:
    """Every form of every artefact. A figure is drawn again only if its numbers, the `evidence`
    that it was made from or the code that draws it have changed.

    An artefact that cannot be rendered becomes `Absent`, and what an earlier report drew of it
    goes. Returned are the results, their files and what failed, by `paper/artefact`.
    """
    from repfl.bench.report import render

    shown, files, failed = [], {}, {}
    for result in results:
        folder = out / result.paper
        try:
            written = _written(result, folder, Cache(out), evidence.get(result.key), style)
        except OSError:  # the disk's fault, and the end of the whole report
            raise
        except Exception as error:  # one artefact's fault must not cost the others
            failed[result.key] = f"{type(error).__name__}: {one_line(error)}"
            result, written = absent(result, error), []
            for ending in render.ENDINGS:
                (folder / f"{result.name}.{ending}").unlink(missing_ok=True)
        shown.append(result)
        files[result.key] = [path.relative_to(out).as_posix() for path in written]
    return shown, files, failed


def _written(result: Result, folder: Path, cache: Cache, evidence: Any, style: str) -> list[Path]:
    """The files of one artefact: written, or as they lie there."""
    from repfl.bench.report import render
    from repfl.paper_tables.core.result import Figure

    if not isinstance(result, Figure) or evidence is None:
        return render.write_files(result, folder, style)
    package = result.paper.replace("-", "_")
    how = code(f"paper_tables/{package}", "paper_tables/core", "bench/report")
    key = digest([how, evidence, render.csv(result), result.title, result.stamp])
    name = f"drawn-{result.paper}-{result.name}"
    known = cache.get(name, key)
    if known is not None:
        return [cache.out / file for file in known]
    written = render.write_files(result, folder, style)
    drawn = [path.relative_to(cache.out).as_posix() for path in written]
    cache.put(name, key, drawn, drawn)
    return written


def absent(result: Result, error: Exception) -> Absent:
    """An artefact whose numbers could not be laid out or drawn."""
    from repfl.paper_tables.core.result import Absent

    why = f"{type(error).__name__}: {one_line(error)}"
    return Absent(
        result.paper, result.name, result.title, f"Could not be rendered ({why}).", result.scale
    )
