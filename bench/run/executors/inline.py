"""One task after another, in this process, whose settings are restored at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from repfl.bench.run.attempt import run_task
from repfl.bench.run.machine import places, prepare_process, settings_restored
from repfl.bench.run.task import Options, Outcome, Task, Tell


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Run tasks here, on the first GPU if on one."""
    if not tasks:
        return
    options = replace(options, device=places(options.device)[0])
    with settings_restored():
        prepare_process(options)
        for task in tasks:
            if stop():
                return
            yield run_task(task, options, tell, stop)
