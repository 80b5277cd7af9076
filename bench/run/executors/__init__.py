"""Executors compute tasks and yield outcomes as they come; they do not change a cell's bits.

`inline` runs in this process. `processes` starts workers of one thread each, on all GPUs if cells
run on GPUs; a worker that dies only gives its cell a failed record. `ray` sends cells to the
machines of a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import repfl.bench.run.executors.ray as on_ray
from repfl.bench.run.executors import inline, processes
from repfl.bench.run.task import Options, Outcome, Report, Task

Execute = Callable[[Sequence[Task], Options, int, Report, Callable[[], bool]], Iterator[Outcome]]
"""(tasks, options, workers, report, stop) -> outcomes."""

EXECUTORS: dict[str, Execute] = {
    "inline": inline.execute,
    "processes": processes.execute,
    "ray": on_ray.execute,
}
