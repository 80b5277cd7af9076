"""The runs that tell the noise of a single one: every cell with several committed seeds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from repfl.bench.evidence.committed import committed_runs
from repfl.bench.evidence.committed.committed_run import Line
from repfl.bench.evidence.committed.committed_runs import CommittedRuns
from repfl.bench.grid import grid as grids
from repfl.bench.grid.cell import canonical
from repfl.paper_tables.core.statistics import noise
from repfl.paper_tables.core.statistics.intervals import Variance


@cache
def fitted(root: Path = grids.ROOT) -> noise.Noise:
    """Return the noise of all committed runs."""
    return noise.noise_by_pool(committed_seeds(root))


def committed_seeds(root: Path | None = None) -> pd.DataFrame:
    """Return the committed runs of cells with several seeds (columns `noise.RUNS`): accuracies as
    their recipes report them, in percent. The board is left out, since its trials differ in more
    than seeds.
    """
    runs = [
        run
        for paper in grids.printed(root)
        for scale in grids.SCALES
        for run in _runs(paper, scale, root)
    ]
    return pd.DataFrame(runs, columns=list(noise.RUNS))


def _runs(paper: str, scale: str, root: Path | None) -> Iterator[tuple[Any, ...]]:
    """Yield the runs of one paper and scale. Partitions are equal if their digests are."""
    committed = committed_runs.read(paper, scale, root)
    groups: dict[str, dict[int, Line]] = {}
    for line in filter(None, map(committed.line, committed.cells)):
        if line.value is not None:
            setting = {**line.record.cell, "column": line.column, "seed": None}
            groups.setdefault(canonical(setting), {})[line.record.cell["seed"]] = line
    for key, seeds in groups.items():
        if len(seeds) > 1:
            by_seed = len({line.record.origin.partition for line in seeds.values()}) > 1
            pool = noise.pool(scale, one_partition=not by_seed)
            for seed, line in seeds.items():
                column = f"{paper}/{line.column}"
                run = seed, 100 * (line.value or 0), by_seed
                yield (pool, column, line.method, key, *run)


def of_line(line: Line, committed: CommittedRuns) -> Variance | None:
    """Return the noise of runs like a committed one."""
    fixed_partition = line.record.recipe.partition.seed is not None
    return fitted().get(noise.pool(committed.scale, one_partition=fixed_partition))
