"""Executors: where tasks are computed. Each takes tasks and yields outcomes as they come; where a
cell runs changes none of its bits.

`inline` runs in this process. `processes` spawns workers of one thread each, over all GPUs if cells
run on these; a worker that dies costs its cell a failed record and nothing else. `ray` hands cells
to the machines of a Ray cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import repfl.bench.run.executors.ray as on_ray
from repfl.bench.run.executors import inline, processes
from repfl.bench.run.task import Options, Outcome, Task, Tell

Execute = Callable[[Sequence[Task], Options, int, Tell, Callable[[], bool]], Iterator[Outcome]]
"""(tasks, options, workers, tell, stop) -> outcomes."""

EXECUTORS: dict[str, Execute] = {
    "inline": inline.execute,
    "processes": processes.execute,
    "ray": on_ray.execute,
}
