"""Run a plan: the missing cells, the longest first, by an executor, beside other runners, until
every cell has ended.

plan -> runner -> executor -> attempt (one cell, faults become records) -> compute -> store
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import inf
from types import FrameType
from typing import TYPE_CHECKING

import repfl.bench.run.executors.ray as on_ray
from repfl.bench.errors import FAILED, FINE, INPUT, UserError
from repfl.bench.grid.planned import Planned, unique
from repfl.bench.run import machine
from repfl.bench.run.attempt import counts_as_done
from repfl.bench.run.executors import EXECUTORS
from repfl.bench.run.record_parts import now
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.store.locks import is_locked, sweep
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store, stored_result

if TYPE_CHECKING:
    from repfl.bench.run.cost import Speeds
    from repfl.bench.run.progress import Progress

POLL = 1.0
"""Seconds between two checks of a cell that another runner has locked."""


@dataclass
class Ending:
    """How a run ended."""

    outcomes: list[Outcome] = field(default_factory=list)
    signal: int = 0
    """The signal that stopped it, or 0."""
    stored: list[Record] = field(default_factory=list)
    """Records that existed before the run."""

    def of(self, *statuses: str) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.status in statuses]

    @property
    def exit_code(self) -> int:
        if self.signal:
            return 128 + self.signal
        if self.of("failed", "diverged"):
            return FAILED
        return INPUT if self.of("refused") else FINE


class Stop:
    """Stops the run after the current round on SIGINT or SIGTERM; a second signal stops at once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.signal = 0
        self._note = note

    def __call__(self) -> bool:
        return self.signal != 0

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        text = "stopping: finishing the round; another Ctrl-C stops at once"
        # from a thread, since the signal may have come in the middle of another line
        threading.Thread(target=self._note, args=(text,), daemon=True).start()

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        if threading.current_thread() is not threading.main_thread():  # which gets the signals
            yield self
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._handle) for number in numbers}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def check_executor(executor: str | None, workers: int | None) -> None:
    """Refuse invalid combinations before anything else is done."""
    if workers is not None and workers < 1:
        raise UserError(f"workers {workers} is not valid; valid: a whole number >= 1")
    if executor == "inline" and workers not in (None, 1):
        raise UserError(
            f"workers {workers}: --executor inline computes in one process; valid: 1, or"
            " --executor processes"
        )
    if executor is not None and executor not in EXECUTORS:
        raise UserError(f"executor {executor!r} is not valid; valid: {', '.join(EXECUTORS)}")


def resolve_device(device: str, executor: str | None = None, workers: int | None = None) -> str:
    """Return the kind of device that cells run on, here or on the machines of a cluster."""
    if executor == "ray" and device in ("auto", "cuda"):
        return on_ray.resolve_device(device, workers)
    return machine.resolve(device)


def choose_executor(
    executor: str | None, workers: int | None, pending: int, options: Options
) -> tuple[str, int]:
    """Return the executor and its number of workers: processes if several cells can run at once,
    otherwise this process.
    """
    if executor == "ray":
        return executor, workers or on_ray.capacity(options)
    count = workers or machine.processors()
    if options.device != "cpu":  # --per-gpu alone says how many cells share a GPU
        count = min(workers or pending, machine.gpus() * options.per_gpu)
    if executor is None:
        executor = "processes" if workers is not None or (count > 1 and pending > 1) else "inline"
    return executor, 1 if executor == "inline" else count


def run(
    planned: Sequence[Planned],
    options: Options,
    executor: str | None,
    workers: int | None,
    progress: Progress,
) -> Ending:
    """Compute all planned cells that are not stored yet."""
    from repfl.bench.run.cost import measured

    store, ending, stop = Store(options.results), Ending(), Stop(progress.note)
    check_executor(executor, workers)
    options = replace(options, began=options.began or now())
    todo = [item for item in unique(planned) if not _finished(store, item, options, ending)]
    if todo:
        store.open()
        speeds, cached = measured(store)[options.device], len(ending.outcomes)
        costs = {item.cell.id: speeds.seconds(item.cell) for item in todo}
        # long ones first, so that no worker is left alone with one at the end
        todo.sort(key=lambda item: -costs[item.cell.id])
        name, count = choose_executor(executor, workers, len(todo), options)
        if name != "ray":  # which minds the memory of its machines itself
            options = replace(options, memory=machine.memory_bytes(options.device)[0])
        tasks, refused = _tasks(todo, speeds, options)
        count = min(count, len(tasks)) if name == "ray" else _fitting(tasks, count, options)
        # what cells cost a CPU says nothing of what they cost a GPU
        in_seconds = options.device == "cpu" or bool(speeds.records)
        cells = [task.cell for task in tasks]
        with stop.listening(), progress.running(cells, costs, cached, count, in_seconds):
            for outcome in refused:
                ending.outcomes.append(outcome)
                progress.finish(outcome)
            try:
                _until_done(tasks, options, (name, count), progress, stop, ending)
            except KeyboardInterrupt:
                stop.signal = stop.signal or signal.SIGINT
        ending.signal = stop.signal
    sweep(store)
    for outcome in ending.of("fatal"):
        raise UserError(outcome.reason)
    return ending


def _tasks(
    todo: Sequence[Planned], speeds: Speeds, options: Options
) -> tuple[list[Task], list[Outcome]]:
    """Return the tasks of planned cells, and refusals of those that fit into no memory."""
    from repfl.bench.run.memory import in_words, needed, peaks_of

    tasks, refused = [], []
    total = inf if options.memory == inf else machine.memory_bytes(options.device)[1]
    peaks = peaks_of(speeds.records)
    for item in todo:
        arguments = options.device, peaks, bool(options.keep_models)
        need = 0.0 if item.skip else needed(item.cell, *arguments)
        if need > total:
            reason = (
                f"needs about {in_words(need)} of memory, and there are {in_words(total)}; fewer"
                " clients or a smaller model need less"
            )
            refused.append(Outcome(item.cell.id, "refused", reason))
        else:
            tasks.append(Task(item.cell, item.command, item.skip, need))
    return tasks, refused


def _fitting(tasks: Sequence[Task], workers: int, options: Options) -> int:
    """Return the number of useful workers: at most one per task, and as many as fit into memory."""
    count, need = min(workers, len(tasks)), sum(task.memory for task in tasks)
    devices = 1 if options.device == "cpu" else machine.gpus()
    if need == 0:
        return count
    return max(1, min(count, int(devices * options.memory * len(tasks) / need)))


def _finished(store: Store, item: Planned, options: Options, ending: Ending) -> bool:
    """Return whether a cell has a usable record already, and add it to the ending."""
    record = stored_result(store, item.cell.id)
    if record is None:
        return False
    if not counts_as_done(record, options):
        return False
    ending.stored.append(record)
    status = "diverged" if record.status == "diverged" else "cached"
    ending.outcomes.append(Outcome(record.id, status, record.reason, 0.0, record.value))
    return True


def _until_done(
    tasks: Sequence[Task],
    options: Options,
    executor_and_workers: tuple[str, int],
    progress: Progress,
    stop: Stop,
    ending: Ending,
) -> None:
    """Execute tasks; then wait for cells that others have locked, and run what they leave."""
    store, waiting, (name, workers) = Store(options.results), list(tasks), executor_and_workers
    while waiting:
        busy: dict[str, str] = {}
        by_id = {task.cell.id: task for task in waiting}
        for outcome in EXECUTORS[name](waiting, options, workers, progress.round, stop):
            if outcome.status == "busy":
                busy[outcome.id] = outcome.reason
                continue
            ending.outcomes.append(outcome)
            progress.finish(outcome)
            if outcome.status == "fatal":
                return
        if busy:
            progress.note(f"{len(busy)} cells are with other runners: waiting for them")
        for marker in filter(None, busy.values()):
            progress.note(marker)
        while busy and not stop() and all(is_locked(store, cell) for cell in busy):
            time.sleep(POLL)
        waiting = [] if stop() else [by_id[cell] for cell in busy]
