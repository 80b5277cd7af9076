"""What the noise model is fitted to: every cell with several measured seeds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.evidence.committed import committed_runs
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.evidence.committed.committed_runs import Measured
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import canonical
from repfl.paper_tables.core.statistics import noise
from repfl.paper_tables.core.statistics.intervals import Prior


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
    """The runs of one paper and scale; a partition is known by its digest."""
    known = committed_runs.read(paper, scale, root)
    groups: dict[str, dict[int, Line]] = {}
    for line in filter(None, map(known.line, known.cells)):
        if line.value is not None:
            alike = {**line.record.cell, "column": line.column, "seed": None}
            groups.setdefault(canonical(alike), {})[line.record.cell["seed"]] = line
    for key, seeds in groups.items():
        if len(seeds) > 1:
            own = len({line.record.provenance["partition"] for line in seeds.values()}) > 1
            pool = noise.pool(scale, one_partition=not own)
            for seed, line in seeds.items():
                place = f"{paper}/{line.column}"
                run = seed, 100 * (line.value or 0), _decisions(line), own
                yield (pool, place, line.method, key, *run)


def of_line(line: Line, known: Measured) -> Prior:
    """What is expected of the runs of a published line's cell."""
    dealt_once = line.record.cell["recipe"]["partition"].get("seed") is not None
    return fitted().expected(
        noise.pool(known.scale, one_partition=dealt_once),
        f"{known.paper}/{line.column}",
        line.method,
    )


def _decisions(line: Line) -> int:
    """How many test images an accuracy is a share of; without counts about a quarter of the
    training images.
    """
    if line.counts is not None:
        return int(line.counts.total.sum())
    return max(1, int(line.record.provenance["samples"]) // 4)
