"""Run one task after another in this process, whose settings are restored at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from repfl.bench.run.attempt import run_task
from repfl.bench.run.machine import device_names, prepare_process, settings_restored
from repfl.bench.run.task import Options, Outcome, Report, Task


def execute(
    tasks: Sequence[Task], options: Options, workers: int, report: Report, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Run tasks in this process, on the first GPU if on one."""
    if not tasks:
        return
    options = replace(options, device=device_names(options.device)[0])
    with settings_restored():
        prepare_process(options)
        for task in tasks:
            if stop():
                return
            yield run_task(task, options, report, stop)
