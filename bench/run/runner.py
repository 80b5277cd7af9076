"""Run a plan: what is missing, in the best order, by an executor, beside other runners, until every
cell has ended.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import TYPE_CHECKING

from repfl.bench.errors import FAILED, FINE, INPUT, UserError
from repfl.bench.grid.plan import Planned, unique
from repfl.bench.run import devices
from repfl.bench.run.executors import EXECUTORS, cluster
from repfl.bench.run.products import now
from repfl.bench.run.task import Options, Outcome, Task
from repfl.bench.run.work import counts_as_done
from repfl.bench.store import provenance
from repfl.bench.store.debris import sweep
from repfl.bench.store.locks import held
from repfl.bench.store.store import Record, Store, stored_result

if TYPE_CHECKING:
    from repfl.bench.run.cost import Speeds
    from repfl.bench.run.progress import Progress

POLL = 1.0
"""Seconds between two looks at a cell that another runner has."""


@dataclass
class Ending:
    """How a run ended."""

    outcomes: list[Outcome] = field(default_factory=list)
    signal: int = 0
    """The signal that stopped it; 0: none did."""
    there: list[Record] = field(default_factory=list)
    """What was stored already."""

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
    """Turns SIGINT and SIGTERM into a wish to end after the current round, and says so at once; a
    second signal ends at once.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.signal = 0
        self._say = say

    def __call__(self) -> bool:
        return self.signal != 0

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.signal:
            raise KeyboardInterrupt
        self.signal = number
        told = "stopping: finishing the round; another Ctrl-C stops at once"
        # from a thread, since the signal may have come in the middle of another line
        threading.Thread(target=self._say, args=(told,), daemon=True).start()

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        if threading.current_thread() is not threading.main_thread():  # which signals go to
            yield self
            return
        before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def resolve_device(
    wanted: str, executor: str | None = None, workers: int | None = None, address: str = ""
) -> str:
    """The kind of device that cells run on, here or on the machines of a cluster."""
    if executor == "ray" and wanted in ("auto", "cuda"):
        return cluster.resolve_device(wanted, address, workers)
    return devices.resolve(wanted)


def check_executor(wanted: str | None, workers: int | None) -> None:
    """Refuse what cannot be meant, before anything is looked at."""
    if workers is not None and workers < 1:
        raise UserError(f"--workers {workers} is not valid; valid: a whole number >= 1")
    if wanted == "inline" and workers not in (None, 1):
        raise UserError(
            f"--workers {workers}: --executor inline computes in one process; valid: 1, or"
            " --executor processes"
        )
    if wanted is not None and wanted not in EXECUTORS:
        raise UserError(f"--executor {wanted!r} is not valid; valid: {', '.join(EXECUTORS)}")


def choose_executor(
    wanted: str | None, workers: int | None, pending: int, options: Options
) -> tuple[str, int]:
    """The executor and its number of workers: processes where several cells may run side by side,
    otherwise this process.
    """
    if wanted == "ray":
        return wanted, workers or cluster.capacity(options)
    count = workers or devices.processes(options.device, options.per_gpu)
    if wanted is None:
        wanted = "processes" if workers is not None or (count > 1 and pending > 1) else "inline"
    return wanted, 1 if wanted == "inline" else count


def run(
    planned: Sequence[Planned],
    options: Options,
    executor: str | None,
    workers: int | None,
    progress: Progress,
) -> Ending:
    """Bring every planned cell to its end."""
    store, summary, stop = Store(options.results), Ending(), Stop(progress.note)
    check_executor(executor, workers)
    todo = unique(planned)
    options = replace(options, began=options.began or now())
    todo = [item for item in todo if not _finished(store, item, options, summary)]
    if not todo:
        sweep(store)
        return summary
    speeds, costs = _costs(store, todo, options.device)
    # long ones first, so that no worker is left alone with one at the end
    todo.sort(key=lambda item: -costs[item.cell.id])
    store.open()
    name, count = choose_executor(executor, workers, len(todo), options)
    tasks = [Task(item.cell, item.command, item.skip, costs[item.cell.id]) for item in todo]
    known = options.device == "cpu" or bool(
        speeds.models
    )  # what cells cost a CPU says nothing of what they cost a GPU
    cells, side_by_side = [item.cell for item in todo], min(count, len(todo))
    share = speeds.cost(cells).per(side_by_side)
    done = len(summary.outcomes)
    with stop.listening(), progress.running(cells, costs, done, side_by_side, known, share):
        try:
            _until_done(tasks, options, (name, count), progress, stop, summary)
        except KeyboardInterrupt:
            stop.signal = stop.signal or signal.SIGINT
    summary.signal = stop.signal
    sweep(store)
    for outcome in summary.of("fatal"):
        raise UserError(outcome.reason)
    return summary


def _costs(store: Store, todo: Sequence[Planned], device: str) -> tuple[Speeds, dict[str, float]]:
    """Return how fast cells are here, and their seconds."""
    from repfl.bench.run.cost import measured

    speeds = measured(store)[device]
    return speeds, {item.cell.id: speeds.seconds(item.cell) for item in todo}


def _finished(store: Store, item: Planned, options: Options, summary: Ending) -> bool:
    """Whether a cell has a usable record already."""
    record = stored_result(store, item.cell.id)
    if record is None:
        return False
    if provenance.half(record.provenance) != (options.precision == provenance.HALF):
        raise UserError(
            f"{store.folder(record.id)} was computed with precision"
            f" {record.provenance['precision']}, not {options.precision}; numbers of bfloat16 are"
            " kept apart from others: name another folder with --results"
        )
    if not counts_as_done(record, options):
        return False
    summary.there.append(record)
    status = "diverged" if record.status == "diverged" else "cached"
    summary.outcomes.append(
        Outcome(record.id, status, record.reason, 0.0, record.metrics.get("value"))
    )
    return True


def _until_done(
    tasks: Sequence[Task],
    options: Options,
    how: tuple[str, int],
    progress: Progress,
    stop: Stop,
    summary: Ending,
) -> None:
    """Execute; then wait for the cells that other runners had, and take over what they leave."""
    execute, (_, workers) = EXECUTORS[how[0]], how
    store, waiting = Store(options.results), list(tasks)
    while waiting:
        busy: dict[str, str] = {}
        by_id = {task.cell.id: task for task in waiting}
        for outcome in execute(waiting, options, workers, progress.round, stop):
            if outcome.status == "busy":
                busy[outcome.id] = outcome.reason
                continue
            summary.outcomes.append(outcome)
            progress.finish(outcome)
            if outcome.status == "fatal":
                return
        if busy:
            progress.note(f"{len(busy)} cells are with other runners: waiting for them")
        for marker in filter(None, busy.values()):
            progress.note(marker)
        while busy and not stop() and all(held(store, cell) for cell in busy):
            time.sleep(POLL)
        waiting = [] if stop() else [by_id[cell] for cell in busy]
