"""One task after another, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from repfl.bench.running.devices import places
from repfl.bench.running.task import Options, Outcome, Task, Tell
from repfl.bench.running.work import prepare_process, run_task


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Run tasks here, on the first GPU if on one."""
    options = replace(options, device=places(options.device)[0], alarm=True)
    if tasks:
        prepare_process(options)
    for task in tasks:
        if stop():
            return
        yield run_task(task, options, tell, stop)
