"""Executors: how tasks meet processors. Each takes tasks and yields outcomes as they come; where a cell runs changes none of its bits.

`inline` runs in this process. `processes` spawns workers of one thread each; a worker that dies costs its cell a failed record and nothing
else. The seam for clusters: anything with the signature below can be put into EXECUTORS.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from bench.running.task import Options, Outcome, Task, Tell
from bench.running.work import crashed, prepare_process, run_task

Execute = Callable[[Sequence[Task], Options, int, Tell, Callable[[], bool]], Iterator[Outcome]]
"""(tasks, options, workers, tell, stop) -> outcomes."""

GRACE = 15.0
"""Seconds that workers get to write a checkpoint after the user asked to stop, and that a cell may overrun its time limit."""


def inline(tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]) -> Iterator[Outcome]:
    """One task after another, here."""
    if tasks:
        prepare_process(options)
    for task in tasks:
        if stop():
            return
        yield run_task(task, options, tell, stop)


# -- workers -------------------------------------------------------------------------------------------------------------------------------


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is at."""

    process: Any
    pipe: Connection
    task: Task | None = None
    begun: float | None = None
    """When it took the task up; none while it is still starting."""

    def give(self, task: Task) -> None:
        self.task, self.begun = task, None
        self.pipe.send(task)

    def end(self) -> None:
        """Let an idle worker go, and a busy one not."""
        with suppress(OSError, ValueError):
            self.pipe.send(None)
        self.process.join(2.0)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def processes(tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]) -> Iterator[Outcome]:
    """Tasks handed one by one to a fixed number of processes."""
    context = multiprocessing.get_context("spawn")
    stopping, waiting = context.Event(), deque(tasks)
    crew = [_hire(context, options, stopping) for _ in range(min(workers, len(tasks)))]
    deadline: float | None = None
    try:
        while any(worker.task for worker in crew) or (waiting and not stopping.is_set()):
            if stop() and not stopping.is_set():
                stopping.set()
                deadline = time.monotonic() + GRACE
            for index, worker in enumerate(crew):
                if worker.task is None and waiting and not stopping.is_set():
                    crew[index] = _assign(worker, waiting.popleft(), context, options, stopping)
            for index, outcome in _listen(crew, tell):
                if outcome.status == "died":
                    outcome, crew[index] = _buried(crew[index], options), _hire(context, options, stopping)
                crew[index].task = None
                yield outcome
            yield from _overdue(crew, options, deadline, context, stopping)
    finally:
        stopping.set()
        for worker in crew:
            worker.end()


def _hire(context: Any, options: Options, stopping: Any) -> _Worker:
    """A new worker process. Its libraries see one thread from their first import on."""
    here, there = context.Pipe()
    process = context.Process(target=_work, args=(there, options, stopping), daemon=True)
    before = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    os.environ.update(dict.fromkeys(before, "1"))
    try:
        process.start()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    there.close()
    return _Worker(process, here)


def _assign(worker: _Worker, task: Task, context: Any, options: Options, stopping: Any) -> _Worker:
    """Give a task to a worker, or to its successor if it has died idle."""
    try:
        worker.give(task)
        return worker
    except OSError:
        worker.end()
        successor = _hire(context, options, stopping)
        successor.give(task)
        return successor


def _listen(crew: Sequence[_Worker], tell: Tell) -> Iterator[tuple[int, Outcome]]:
    """What busy workers have to say within a moment."""
    busy: dict[Any, int] = {worker.pipe: index for index, worker in enumerate(crew) if worker.task is not None}
    for pipe in wait(list(busy), timeout=0.2) if busy else ():
        index = busy[pipe]
        try:
            message = crew[index].pipe.recv()
        except (EOFError, OSError):
            yield index, Outcome("", "died")
            continue
        if isinstance(message, Outcome):
            yield index, message
            continue
        crew[index].begun = crew[index].begun or time.monotonic()
        tell(*message)


def _buried(worker: _Worker, options: Options) -> Outcome:
    """The outcome of a task whose worker died: a failed record that says how."""
    assert worker.task is not None
    worker.process.join(5.0)
    code = worker.process.exitcode
    worker.pipe.close()
    how = f"exit code {code}"
    if code is not None and code < 0:
        how = f"signal {signal.Signals(-code).name}" + (", possibly out of memory" if -code == signal.SIGKILL else "")
    return crashed(worker.task, options, f"the worker process died: {how}")


def _overdue(crew: list[_Worker], options: Options, deadline: float | None, context: Any, stopping: Any) -> Iterator[Outcome]:
    """Kill workers that do not come back: after the user asked to stop, or in a round that outlasts the time limit."""
    now = time.monotonic()
    for index, worker in enumerate(crew):
        if worker.task is None:
            continue
        late = options.time_limit is not None and worker.begun is not None and now - worker.begun > options.time_limit + GRACE
        if late or (deadline is not None and now > deadline):
            task = worker.task
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
            crew[index] = _hire(context, options, stopping)
            yield (
                crashed(task, options, f"time limit of {options.time_limit:g} s reached within a round")
                if late
                else Outcome(task.cell.id, "interrupted", "stopped by the user within a round")
            )


def _work(pipe: Connection, options: Options, stopping: Any) -> None:
    """The life of a worker: tasks come in, rounds and outcomes go out. It ends with its parent, however that ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C reaches everybody; the parent decides what it means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow_parent, daemon=True).start()
    last = [0.0]

    def tell(cell: str, round_: int) -> None:
        if time.monotonic() - last[0] > 0.2:
            last[0] = time.monotonic()
            pipe.send((cell, round_))

    try:
        prepare_process(options)
        while (task := pipe.recv()) is not None:
            pipe.send((task.cell.id, 0))
            pipe.send(run_task(task, options, tell, stopping.is_set))
    except (EOFError, OSError):
        return


def _follow_parent() -> None:
    """Leave at once when the parent is gone, even by kill -9: its cells belong to whoever comes next."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


EXECUTORS: dict[str, Execute] = {"inline": inline, "processes": processes}
