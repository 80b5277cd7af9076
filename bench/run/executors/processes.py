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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from repfl.bench.run import machine
from repfl.bench.run.attempt import crashed, run_task
from repfl.bench.run.task import Options, Outcome, Task, Tell

CONTEXT = multiprocessing.get_context("spawn")
LEAVING = 2.0
"""Seconds that idle workers have to leave by themselves."""


def execute(
    tasks: Sequence[Task], options: Options, workers: int, tell: Tell, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Give every task to a free worker, in their order, as far as the memory allows. Who asks to
    stop waits for the rounds that are under way; who asks again does not.
    """
    waiting, stopping, places = list(tasks), False, machine.places(options.device)
    pool = [
        Worker(replace(options, device=places[number % len(places)]))
        for number in range(min(workers, len(tasks)))
    ]
    try:
        while waiting or any(worker.task for worker in pool):
            if not stopping and stop():
                waiting, stopping = [], True
                for worker in pool:
                    worker.send(None)
            assign(waiting, pool)
            yield from listen(pool, tell)
    finally:
        dismiss(pool)


def assign(waiting: list[Task], pool: Sequence[Worker]) -> None:
    """Give waiting tasks to idle workers. A task that does not fit beside what its device computes
    already lets smaller ones pass.
    """
    for worker in pool:
        if worker.task or not waiting:
            continue
        beside = [w.task for w in pool if w.task and w.options.device == worker.options.device]
        room = worker.options.memory - sum(task.memory for task in beside)
        fitting = (task for task in waiting if not beside or task.memory <= room)
        if task := next(fitting, None):
            waiting.remove(task)
            worker.give(task)


def listen(pool: Sequence[Worker], tell: Tell) -> Iterator[Outcome]:
    """Yield the outcomes that come in within a moment, and pass on how far cells are."""
    busy: dict[Any, Worker] = {worker.pipe: worker for worker in pool if worker.task}
    for pipe in wait(list(busy), timeout=0.2):
        worker = busy[pipe]
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            yield worker.bury()
            continue
        if isinstance(message, Outcome):
            worker.task = None
            yield message
        else:
            tell(*message)


def dismiss(pool: Sequence[Worker]) -> None:
    """Let idle workers leave, and kill the others: who presses Ctrl-C again waits for it."""
    for worker in pool:
        worker.send(None)
    deadline = time.monotonic() + LEAVING
    for worker in pool:
        worker.kill(max(0.0, deadline - time.monotonic()))


class Worker:
    """A process on a device, the pipe to it, and the task that it has. It is started when it gets
    its first task, and again after it has died.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.task: Task | None = None
        self.process: Any = None
        self.pipe: Any = None

    def give(self, task: Task) -> None:
        """Hand over a task."""
        if self.process is not None and not self.process.is_alive():
            self.kill()
        if self.process is None:
            self.pipe, there = CONTEXT.Pipe()
            self.process = CONTEXT.Process(target=_work, args=(there, self.options), daemon=True)
            with _spawning(), _without_signals():
                self.process.start()
            there.close()
        self.task = task
        self.send(task)

    def send(self, message: Task | None) -> None:
        """Send a task, or that the worker should end; one that has died is noticed later."""
        with suppress(OSError):
            if self.pipe is not None:
                self.pipe.send(message)

    def kill(self, patience: float = 0.0) -> None:
        """End the process, if need be by force."""
        if self.process is None:
            return
        self.process.join(patience)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.process = self.pipe = None

    def bury(self) -> Outcome:
        """Store that the process died, and how; its task is then free for the next run."""
        assert self.task is not None
        self.process.join(5.0)
        reason = f"the worker process died: {_how(self.process.exitcode)}"
        task, self.task = self.task, None
        self.kill()
        return crashed(task, self.options, reason)


def _how(code: int | None) -> str:
    """Return how a process died, from its exit code."""
    if code is None or code >= 0:
        return f"exit code {code}"
    memory = ", possibly out of memory" if code == -signal.SIGKILL else ""
    return f"signal {signal.Signals(-code).name}{memory}"


@contextmanager
def _spawning() -> Iterator[None]:
    """Make a new process see one thread from its first import on, and not import the script that
    starts it, which would run it again.
    """
    before, main = dict(os.environ), sys.modules["__main__"]
    spec, file = main.__spec__, vars(main).pop("__file__", None)
    os.environ.update(machine.ONE_THREAD)
    main.__spec__ = None
    try:
        yield
    finally:
        for name in machine.ONE_THREAD:
            del os.environ[name]
        os.environ.update(before)
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file


STOPS = (signal.SIGINT, signal.SIGTERM)
"""A terminal's Ctrl-C, Slurm and `timeout` send these to a whole group of processes; the parent
decides what they mean.
"""


@contextmanager
def _without_signals() -> Iterator[None]:
    """Let a new process begin with these signals blocked: while it imports, they would kill it."""
    resource_tracker.ensure_running()  # it would start with the process, and unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the worker ---------------------------------------------------------------------------------


def _work(pipe: Connection, options: Options) -> None:
    """Compute tasks until there is no more, or until the parent has gone."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    last = 0.0

    def tell(cell: str, rounds: int) -> None:
        nonlocal last
        if rounds == 0 or time.monotonic() - last > 0.2:
            last = time.monotonic()
            pipe.send((cell, rounds))

    with suppress(EOFError, OSError):
        machine.prepare_process(options)
        while (task := pipe.recv()) is not None:
            # whatever comes while a task is computed means that the user wants to stop
            pipe.send(run_task(task, options, tell, pipe.poll))


def _follow_parent() -> None:
    """Leave at once when the parent is gone, even by kill -9: the next run takes the cell over."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
