"""Cells on the machines of a Ray cluster: one task per cell, a share of a GPU each, and another try
where a machine is lost.

All machines see the same results folder and the same clone: a cell whose machine dies goes on
elsewhere from its checkpoint. Which cell is whose is decided by the store's locks, as between any
two runners; Ray only says where a cell may be tried.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from repfl.bench.errors import UserError, one_line
from repfl.bench.grid.plugins import files
from repfl.bench.run import devices
from repfl.bench.run.executors.cluster import connect
from repfl.bench.run.task import GRACE, Options, Outcome, Task, Tell
from repfl.bench.run.work import crashed, prepare_process, run_task
from repfl.bench.store.provenance import ROOT

TRIES = 4
"""How often a cell is begun whose process dies; each time it goes on from its checkpoint."""
SPEAK = 0.5
"""Seconds between two words of a cell on how far it is."""


# -- on the machines -------------------------------------------------------------------------------


class Board:
    """Lives beside the driver, as an actor: cells write how far they are, and read whether they
    should end.
    """

    def __init__(self) -> None:
        self.rounds: dict[str, int] = {}
        self.stopping = False

    def tell(self, cell: str, rounds: int) -> bool:
        self.rounds[cell] = rounds
        return self.stopping

    def read(self) -> dict[str, int]:
        return self.rounds

    def forget(self, cell: str) -> None:
        self.rounds.pop(cell, None)

    def stop(self) -> None:
        self.stopping = True


class _Messenger:
    """A cell's line to the board. It never waits: the answer to one word is read with the next."""

    def __init__(self, board: Any) -> None:
        self.board, self.last, self.stopping = board, 0.0, False
        self.asked: Any = None

    def __call__(self, cell: str, rounds: int) -> None:
        if time.monotonic() - self.last >= SPEAK:
            self.last = time.monotonic()
            self.stop()
            self.asked = self.board.tell.remote(cell, rounds)

    def stop(self) -> bool:
        """Whether the cell should end: because the user wants it, or because nobody is there to
        hear of it.
        """
        import ray

        if self.asked is not None and ray.wait([self.asked], timeout=0)[0]:
            try:
                self.stopping = self.stopping or bool(ray.get(self.asked))
            except ray.exceptions.RayError:
                self.stopping = True
            self.asked = None
        return self.stopping


def _compute(task: Task, options: Options, plugins: Mapping[str, str], board: Any) -> Outcome:
    """One cell, on whichever machine Ray has chosen."""
    import ray

    messenger = _Messenger(board)
    try:
        if ray.get(board.tell.remote(task.cell.id, 0)):
            return Outcome(task.cell.id, "interrupted", "stopped by the user")
        options = replace(
            options, device=devices.places(options.device)[0], plugins=_unpacked(plugins)
        )
        prepare_process(options)
    except UserError as error:
        return Outcome(task.cell.id, "fatal", f"{socket.gethostname()}: {one_line(error)}")
    return run_task(task, options, messenger, messenger.stop)


def _unpacked(plugins: Mapping[str, str]) -> tuple[str, ...]:
    """The user's files, as the driver has read them, under their own names on this machine."""
    return tuple(
        str(Path(_folder(original, text).name) / Path(original).name)
        for original, text in plugins.items()
    )


@lru_cache(maxsize=64)
def _folder(original: str, text: str) -> tempfile.TemporaryDirectory[str]:
    """A folder with one file, for as long as this process lives."""
    made = tempfile.TemporaryDirectory(prefix="repfl-plugin-")
    (Path(made.name) / Path(original).name).write_text(text, encoding="utf-8")
    return made


# -- in the driver ---------------------------------------------------------------------------------


@dataclass
class _Try:
    """A task that Ray has."""

    task: Task
    number: int
    begun: float | None = None
    """When the cell first spoke; none while it waits for a place."""


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Hand tasks to the cluster, `workers` at a time, and tell what comes back."""
    if not tasks:
        return
    driver = _Driver(options, workers, tasks)
    try:
        while driver.tries or (driver.waiting and driver.deadline is None):
            if stop():
                driver.halt()
            driver.submit()
            yield from driver.collect()
            driver.listen(tell)
            yield from driver.overdue()
    finally:
        driver.leave()


class _Driver:
    """What this process knows of the cluster's work."""

    def __init__(self, options: Options, workers: int, tasks: Sequence[Task]) -> None:
        self.ray = connect(options.address, workers)
        self.options, self.workers, self.read = options, workers, 0.0
        self.deadline: float | None = None
        self.waiting = deque((task, 1) for task in tasks)
        self.tries: dict[Any, _Try] = {}
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(
            self.ray.get_runtime_context().get_node_id(), soft=False
        )
        self.board = self.ray.remote(Board).options(num_cpus=0, scheduling_strategy=here).remote()
        self.plugins = self.ray.put(
            {path: Path(path).read_text(encoding="utf-8") for path in files(options.plugins)}
        )
        share = {"num_gpus": 1 / max(options.per_gpu, 1)} if options.device == "cuda" else {}
        self.compute = self.ray.remote(_compute).options(num_cpus=1, max_retries=0, **share)

    def submit(self) -> None:
        while self.waiting and self.deadline is None and len(self.tries) < self.workers:
            task, number = self.waiting.popleft()
            self.tries[self.compute.remote(task, self.options, self.plugins, self.board)] = _Try(
                task, number
            )

    def collect(self) -> Iterator[Outcome]:
        """Outcomes that have come in within a moment; a lost process is followed by another, up to
        a point.
        """
        if not self.tries:
            return
        ready, _ = self.ray.wait(list(self.tries), num_returns=len(self.tries), timeout=0.2)
        for reference in ready:
            attempt = self.tries.pop(reference)
            try:
                yield self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                yield from self._lost(attempt, error)

    def _lost(self, attempt: _Try, error: Any) -> Iterator[Outcome]:
        """A task has come to no outcome: its process or its machine died, or repfl does not run
        there at all.
        """
        cell, faults = attempt.task.cell.id, self.ray.exceptions
        if self.deadline is not None:
            yield Outcome(cell, "interrupted", "stopped by the user")
        elif isinstance(error, faults.RayTaskError | faults.RuntimeEnvSetupError):
            said = one_line(getattr(error, "cause", None) or error)
            yield Outcome(
                cell,
                "fatal",
                f"the machines of the Ray cluster cannot run repfl, is {ROOT} there? {said[:300]}",
            )
        elif attempt.number >= TRIES:
            reason = f"{type(error).__name__}: {one_line(error)[:200]}"
            yield crashed(
                attempt.task,
                self.options,
                f"its process on the Ray cluster died {TRIES} times, last by {reason}",
            )
        else:
            self.board.forget.remote(cell)
            self.waiting.appendleft((attempt.task, attempt.number + 1))

    def listen(self, tell: Tell) -> None:
        """Read the board, now and then."""
        if time.monotonic() - self.read < SPEAK:
            return
        self.read = time.monotonic()
        rounds = self.ray.get(self.board.read.remote())
        for attempt in self.tries.values():
            cell = attempt.task.cell.id
            if cell in rounds:
                attempt.begun = attempt.begun or time.monotonic()
                tell(cell, rounds[cell])

    def halt(self) -> None:
        """Take back what waits, and let what runs end after its round."""
        if self.deadline is None:
            self.deadline = time.monotonic() + GRACE
            self.ray.get(self.board.stop.remote())
            for reference, attempt in self.tries.items():
                if attempt.begun is None:
                    self.ray.cancel(reference)

    def overdue(self) -> Iterator[Outcome]:
        """Kill cells that do not come back: after the user asked to stop, or in a round that
        outlasts the time limit.
        """
        now, limit = time.monotonic(), self.options.time_limit
        for reference, attempt in list(self.tries.items()):
            late = (
                limit is not None
                and attempt.begun is not None
                and now - attempt.begun > limit + GRACE
            )
            if late or (self.deadline is not None and now > self.deadline):
                self.ray.cancel(reference, force=True)
                del self.tries[reference]
                if late:
                    yield crashed(
                        attempt.task,
                        self.options,
                        f"time limit of {limit:g} s reached within a round",
                    )
                else:
                    yield Outcome(
                        attempt.task.cell.id, "interrupted", "stopped by the user within a round"
                    )

    def leave(self) -> None:
        for reference in self.tries:
            with suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=True)
        self.ray.kill(self.board)
