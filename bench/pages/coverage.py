"""How much of each paper's grid has been measured, and what it cost: a part of the paper's
README.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

from repfl.bench.evidence import measured, recheck, tiers
from repfl.bench.evidence.measured import Measured
from repfl.bench.grid import grid as grids
from repfl.bench.grid.plan import plan
from repfl.bench.grid.planned import Planned, Selection, unique
from repfl.bench.pages import parts, statistics
from repfl.bench.run.cost import duration
from repfl.bench.store.store import Record


def page_of(paper: str) -> Path:
    """The README that has the block."""
    return measured.folder_of(paper).parent / "README.md"


def documented() -> list[str]:
    """The papers whose README has the block; a paper that somebody begins need not have one."""
    pages = {paper: page_of(paper) for paper in grids.files()}
    return [
        paper for paper, page in pages.items() if page.exists() and parts.read(page, "coverage")
    ]


def block(paper: str) -> str:
    """A line per scale, and for the desk scale one per artefact."""
    there = grids.read(grids.files()[paper]).file.scales
    scales = [scale for scale in grids.SCALES if scale in there]
    plans = {scale: plan(Selection(papers=[paper], scale=scale)) for scale in scales}
    held = {scale: recheck.read(paper, scale) for scale in scales}
    known = {scale: each.records for scale, each in held.items()}
    lines = [
        "| scale | cells measured | wall time of all of them | device | by |",
        f"|{'---|' * 5}",
    ]
    for scale, planned in plans.items():
        cells = unique(planned)
        done = [known[scale][item.cell.id] for item in cells if item.cell.id in known[scale]]
        lines.append(f"| {scale} | {len(done)} of {len(cells)} | {' | '.join(_cost(done))} |")
    lines += ["", told] if (told := statistics.reach(paper)) else []
    lines += ["", told] if (told := elsewhere(held.values())) else []
    if "desk" not in plans:
        return "\n".join(lines) + "\n"
    lines += ["", "| artefact at desk scale | cells measured, by column of the grid |", "|---|---|"]
    return "\n".join([*lines, *_artefacts(plans["desk"], known["desk"])]) + "\n"


def elsewhere(held: Iterable[Measured]) -> str:
    """How far the same cell comes out from itself on another kind of machine."""
    found = [
        (100 * tiers.gap(line, other), str(line.axes["method"]))
        for known in held
        for cell, lines in known.cells.items()
        if (line := known.line(cell)) is not None
        for other in lines.values()
        if other.platform != line.platform and other.standing.current
    ]
    if not found:
        return ""
    most, method = max(found)
    middle = median(gap for gap, _ in found)
    alone = len({name for _, name in found}) == 1
    cells = "1 line" if len(found) == 1 else f"{len(found)} lines"
    return (
        f"{cells}{f', all of `{method}`,' if alone else ''} {'has' if len(found) == 1 else 'have'}"
        f" been computed on another kind of machine too: accuracies are {middle:.1f} points apart"
        f" (median) and {most:.1f} at most{'' if alone else f' (`{method}`)'}, with the same seeds."
    )


def _cost(done: Sequence[Record]) -> tuple[str, str, str]:
    """Time, devices and last day of records."""
    if not done:
        return "", "", ""
    spent = (record.provenance.get("seconds") or {} for record in done)  # what diverged has none
    wall = sum(seconds.get("wall", 0.0) for seconds in spent)
    devices = sorted({_device(record) for record in done})
    return (
        duration(wall),
        ", ".join(devices),
        max(str(record.provenance["finished"]) for record in done)[:10],
    )


def _device(record: Record) -> str:
    name = str(record.provenance["platform"]["device"])
    return f"{name}, one thread" if record.provenance["device"] == "cpu" else name


def _artefacts(planned: Sequence[Planned], known: dict[str, Record]) -> Iterator[str]:
    """What has been measured of every artefact."""
    for artefact in dict.fromkeys(item.artefact for item in planned):
        columns: dict[str, set[str]] = {}
        for item in planned:
            if item.artefact == artefact:
                columns.setdefault(item.column, set()).add(item.cell.id)
        counts = (
            f"{column} {len(cells & known.keys())} of {len(cells)}"
            for column, cells in columns.items()
        )
        yield f"| {artefact} | {', '.join(counts)} |"
