"""What the noise model is fitted to: every cell with several measured seeds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.evidence import measured, recheck
from repfl.bench.evidence.lines import AXES, Line
from repfl.bench.grid import grid as grids
from repfl.paper_tables.core import noise
from repfl.paper_tables.core.statistics import Prior


def fitted(root: Path | None = None) -> noise.Noise:
    """The noise model of everything that came with the code."""
    return _fitted(root or grids.ROOT)


@cache
def _fitted(root: Path) -> noise.Noise:
    return noise.Noise(noise.groups_of(measured_runs(root)))


def measured_runs(root: Path | None = None) -> pd.DataFrame:
    """Measured lines of cells with several seeds (columns `noise.RUNS`); accuracies as their
    recipes report them, in percent. The board's trials differ in more than seeds.
    """
    found = [
        run
        for paper in grids.printed(root)
        for scale in grids.SCALES
        for run in _runs(paper, scale, root)
    ]
    return pd.DataFrame(found, columns=list(noise.RUNS))


def _runs(paper: str, scale: str, root: Path | None) -> Iterator[tuple[Any, ...]]:
    """The runs of one paper and scale. A cell is a line's axes but its seed; a partition is known
    by its digest.
    """
    known = recheck.read(paper, scale, root)
    cells: dict[tuple[str, ...], dict[int, Line]] = {}
    for line in (
        line
        for cell in known.cells
        if (line := known.line(cell)) is not None and line.value is not None
    ):
        key = tuple(str(line.axes[name]) for name in AXES if name != "seed")
        # special recipes, such as longer ones, may share all axes; of one seed the first counts
        cells.setdefault(key, {}).setdefault(int(line.axes["seed"]), line)
    for key, seeds in cells.items():
        if len(seeds) > 1:
            own = len({line.record.provenance["partition"] for line in seeds.values()}) > 1
            axes = dict(zip([name for name in AXES if name != "seed"], key, strict=True))
            labels = (
                noise.pool(scale, one_partition=not own),
                f"{paper}/{axes['column']}",
                axes["method"],
                repr(key),
            )
            for seed, line in seeds.items():
                yield (*labels, seed, 100 * (line.value or 0), _decisions(line), own)


def of_line(line: Line, known: measured.Measured) -> Prior:
    """What is expected of the runs of a measured line's cell."""
    recipe = (line.record.cell or {}).get("recipe") or {}
    dealt_once = (recipe.get("partition") or {}).get("seed") is not None
    paper = known.folder.parent.name.replace("_", "-")
    return fitted().expected(
        noise.pool(known.scale, one_partition=dealt_once),
        f"{paper}/{line.axes['column']}",
        str(line.axes["method"]),
    )


def _decisions(line: Line) -> int:
    """How many test images an accuracy is a share of; without counts about a quarter of the
    training images.
    """
    if line.counts is not None:
        return int(line.counts.total.sum())
    return max(1, int(line.record.provenance["samples"]) // 4)
