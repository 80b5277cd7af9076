"""Run tasks in worker processes of one thread each, on this machine's CPUs or spread over its
GPUs.
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
from repfl.bench.run.task import Options, Outcome, Report, Task

CONTEXT = multiprocessing.get_context("spawn")
EXIT_SECONDS = 2.0
"""Seconds that idle workers have to exit by themselves."""


def execute(
    tasks: Sequence[Task], options: Options, workers: int, report: Report, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Give every task to a free worker, in order, as far as the memory allows. The first request to
    stop waits for the current rounds; a second one does not.
    """
    waiting, stopping, devices = list(tasks), False, machine.device_names(options.device)
    pool = [
        Worker(replace(options, device=devices[number % len(devices)]))
        for number in range(min(workers, len(tasks)))
    ]
    try:
        while waiting or any(worker.task for worker in pool):
            if not stopping and stop():
                waiting, stopping = [], True
                for worker in pool:
                    worker.send(None)
            assign(waiting, pool)
            yield from listen(pool, report)
    finally:
        stop_workers(pool)


def assign(waiting: list[Task], pool: Sequence[Worker]) -> None:
    """Give waiting tasks to idle workers. If a task does not fit into its device's memory beside
    the running ones, smaller tasks go first.
    """
    for worker in pool:
        if worker.task or not waiting:
            continue
        device = worker.options.device
        running = [each.task for each in pool if each.task and each.options.device == device]
        free = worker.options.memory - sum(task.memory for task in running)
        fitting = (task for task in waiting if not running or task.memory <= free)
        if task := next(fitting, None):
            waiting.remove(task)
            worker.give(task)


def listen(pool: Sequence[Worker], report: Report) -> Iterator[Outcome]:
    """Yield the outcomes that arrive within a moment, and report completed rounds."""
    busy: dict[Any, Worker] = {worker.pipe: worker for worker in pool if worker.task}
    for pipe in wait(list(busy), timeout=0.2):
        worker = busy[pipe]
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            yield worker.record_death()
            continue
        if isinstance(message, Outcome):
            worker.task = None
            yield message
        else:
            report(*message)


def stop_workers(pool: Sequence[Worker]) -> None:
    """Let idle workers exit, and kill the others: a second Ctrl-C does not wait for them."""
    for worker in pool:
        worker.send(None)
    deadline = time.monotonic() + EXIT_SECONDS
    for worker in pool:
        worker.kill(max(0.0, deadline - time.monotonic()))


class Worker:
    """A process on a device, the pipe to it, and its task. It is started with its first task, and
    again after it has died.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.task: Task | None = None
        self.process: Any = None
        self.pipe: Any = None

    def give(self, task: Task) -> None:
        """Send a task to the process, starting it if needed."""
        if self.process is not None and not self.process.is_alive():
            self.kill()
        if self.process is None:
            self.pipe, worker_end = CONTEXT.Pipe()
            arguments = (worker_end, self.options)
            self.process = CONTEXT.Process(target=_serve, args=arguments, daemon=True)
            with _spawning(), _without_signals():
                self.process.start()
            worker_end.close()
        self.task = task
        self.send(task)

    def send(self, message: Task | None) -> None:
        """Send a task, or None to end the worker; a dead process is noticed later."""
        with suppress(OSError):
            if self.pipe is not None:
                self.pipe.send(message)

    def kill(self, seconds: float = 0.0) -> None:
        """End the process, after some seconds by force."""
        if self.process is None:
            return
        self.process.join(seconds)
        self.process.kill()
        self.process.join()
        self.pipe.close()
        self.process = self.pipe = None

    def record_death(self) -> Outcome:
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
    """Context manager: a new process has one thread from its first import on, and does not import
    the main script, which would run it again.
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
    """Context manager: block these signals in a new process, which they would kill at start."""
    resource_tracker.ensure_running()  # it would start with the process, and unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# -- in the worker ---------------------------------------------------------------------------------


def _serve(pipe: Connection, options: Options) -> None:
    """Compute tasks until there are no more, or until the parent has exited."""
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
    threading.Thread(target=_follow_parent, daemon=True).start()
    last_report = 0.0

    def report(cell: str, rounds: int) -> None:
        nonlocal last_report
        if rounds == 0 or time.monotonic() - last_report > 0.2:
            last_report = time.monotonic()
            pipe.send((cell, rounds))

    with suppress(EOFError, OSError):
        machine.prepare_process(options)
        while (task := pipe.recv()) is not None:
            # whatever comes while a task is computed means that the user wants to stop
            pipe.send(run_task(task, options, report, pipe.poll))


def _follow_parent() -> None:
    """Exit when the parent has exited, even by kill -9: the next run takes the cell over."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
