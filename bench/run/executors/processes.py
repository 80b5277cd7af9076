"""Tasks handed one by one to processes of one thread each: on the processors of this machine, or
spread over its GPUs.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

from repfl.bench.run import devices
from repfl.bench.run.task import GRACE, Options, Outcome, Task, Tell
from repfl.bench.run.work import ONE_THREAD, crashed, prepare_process, run_task

LEAVING = 2.0
"""Seconds that workers have to leave by themselves."""


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Give every task to a worker that has room for it."""
    pool, waiting = WorkerPool(options, min(workers, len(tasks))), deque(tasks)
    try:
        while pool.busy or (waiting and not pool.stopping.is_set()):
            if stop():
                pool.halt()
            if not pool.stopping.is_set():
                pool.assign(waiting)
            yield from pool.listen(tell)
            yield from pool.overdue()
    finally:
        pool.dismiss()


@dataclass(eq=False)
class _Worker:
    """A process, the pipe to it, and what it is at."""

    process: Any
    pipe: Connection
    options: Options
    task: Task | None = None
    begun: float | None = None
    """When it took the task up; none while it is still starting."""

    def give(self, task: Task) -> None:
        self.task, self.begun = task, None
        self.pipe.send(task)

    def release(self) -> None:
        """Let it go once it is idle."""
        with suppress(OSError, ValueError):
            self.pipe.send(None)

    def end(self, deadline: float) -> None:
        """Let an idle worker go until then; a busy one is killed."""
        self.release()
        self.process.join(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.pipe.close()


class WorkerPool:
    """The workers of a run."""

    def __init__(self, options: Options, most: int) -> None:
        self.options, self.most = options, most
        self.devices = devices.places(options.device)
        self.per_device = most if options.device == "cpu" else options.per_gpu
        self.context = multiprocessing.get_context("spawn")
        self.stopping = self.context.Event()
        self.deadline: float | None = None
        self.workers: list[_Worker] = []

    @property
    def busy(self) -> list[_Worker]:
        return [worker for worker in self.workers if worker.task is not None]

    # -- handing out -------------------------------------------------------------------------------

    def assign(self, waiting: deque[Task]) -> None:
        """Give waiting tasks away, in their order, as long as there is room."""
        while waiting and len(self.busy) < self.most:
            load = Counter(worker.options.device for worker in self.busy)
            device = min(self.devices, key=lambda name: load[name])
            if load[device] >= self.per_device:
                return
            self._give(waiting.popleft(), device)

    def _give(self, task: Task, device: str) -> None:
        """Give a task to an idle worker of a device, or to a new one; also if the idle one turns
        out to have died.
        """
        idle = [worker for worker in self.workers if worker.task is None]
        here = next((worker for worker in idle if worker.options.device == device), None)
        if here is None:
            if len(self.workers) >= self.most:
                self._dismissed(idle[0])
            here = self._start_worker(device)
        try:
            here.give(task)
        except OSError:
            self._dismissed(here)
            self._start_worker(device).give(task)

    def _dismissed(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.end(time.monotonic() + LEAVING)

    def _start_worker(self, device: str) -> _Worker:
        """Start a worker process for a device."""
        here, there = self.context.Pipe()
        options = replace(self.options, device=device)
        process = self.context.Process(
            target=_work, args=(there, options, self.stopping), daemon=True
        )
        # the variables are seen by its libraries from their first import on
        with _environment(ONE_THREAD), _without_main():
            process.start()
        there.close()
        self.workers.append(_Worker(process, here, options))
        return self.workers[-1]

    # -- listening ---------------------------------------------------------------------------------

    def listen(self, tell: Tell) -> Iterator[Outcome]:
        """What busy workers have to say within a moment."""
        busy: dict[Any, _Worker] = {worker.pipe: worker for worker in self.busy}
        for pipe in wait(list(busy), timeout=0.2) if busy else ():
            worker = busy[pipe]
            try:
                message = worker.pipe.recv()
            except (EOFError, OSError):
                yield self._lost(worker, "")
                continue
            if isinstance(message, Outcome):
                self._free(worker)
                yield message
                continue
            cell, rounds = message
            worker.begun = worker.begun or time.monotonic()
            tell(cell, rounds)

    def _free(self, worker: _Worker) -> Task:
        assert worker.task is not None
        task, worker.task = worker.task, None
        return task

    def _lost(self, worker: _Worker, reason: str) -> Outcome:
        """The outcome of a task whose worker died or was killed: a failed record that says how."""
        if not reason:
            worker.process.join(5.0)
            reason = f"the worker process died: {_how(worker.process.exitcode)}"
        worker.kill()
        self.workers.remove(worker)
        return crashed(self._free(worker), worker.options, reason)

    # -- ending ------------------------------------------------------------------------------------

    def halt(self) -> None:
        """Ask all workers to end after their round."""
        if not self.stopping.is_set():
            self.stopping.set()
            self.deadline = time.monotonic() + GRACE

    def overdue(self) -> Iterator[Outcome]:
        """Kill workers that do not come back: after the user asked to stop, or in a round that
        outlasts the time limit.
        """
        now, limit = time.monotonic(), self.options.time_limit
        for worker in self.busy:
            if (
                limit is not None
                and worker.begun is not None
                and now - worker.begun > limit + GRACE
            ):
                worker.process.kill()
                yield self._lost(worker, f"time limit of {limit:g} s reached within a round")
            elif self.deadline is not None and now > self.deadline:
                worker.kill()
                self.workers.remove(worker)
                yield Outcome(
                    self._free(worker).cell.id, "interrupted", "stopped by the user within a round"
                )

    def dismiss(self) -> None:
        self.stopping.set()
        for worker in self.workers:
            worker.release()
        deadline = time.monotonic() + LEAVING  # one for all: who presses Ctrl-C again waits for it
        for worker in self.workers:
            worker.end(deadline)


def _how(code: int | None) -> str:
    """How a process died, from its exit code."""
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}" + (
            ", possibly out of memory" if -code == signal.SIGKILL else ""
        )
    return f"exit code {code}"


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Variables that are set for a moment."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_main() -> Iterator[None]:
    """A worker needs nothing of the script that starts it, and would run it again to import it."""
    main = sys.modules["__main__"]
    spec, file = main.__spec__, vars(main).pop("__file__", None)
    main.__spec__ = None
    try:
        yield
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file


# -- in the worker ---------------------------------------------------------------------------------


def _work(pipe: Connection, options: Options, stopping: Any) -> None:
    """The life of a worker: tasks come in, rounds and outcomes go out. It ends with its parent,
    however that ends.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # a terminal's Ctrl-C reaches everybody; the parent decides what it means
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        prepare_process(options)
        while (task := pipe.recv()) is not None:
            pipe.send((task.cell.id, 0))
            devices.clear(options.device)
            pipe.send(run_task(task, options, _Sender(pipe), stopping.is_set))
    except (EOFError, OSError):
        return


class _Sender:
    """Tells the parent how far a cell has come, at most five times a second."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe, self.last = pipe, 0.0

    def __call__(self, cell: str, rounds: int) -> None:
        if time.monotonic() - self.last > 0.2:
            self.last = time.monotonic()
            self.pipe.send((cell, rounds))


def _follow_parent() -> None:
    """Leave at once when the parent is gone, even by kill -9: its cells belong to whoever comes
    next.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
