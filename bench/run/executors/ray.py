"""Run cells on the machines of a Ray cluster: one task per cell, a share of a GPU each, and another
try if a machine is lost.

All machines see the same results folder and the same clone: a cell whose machine dies is resumed
elsewhere from its checkpoint. The store's locks decide who computes a cell, as between any two
runners; Ray only decides where it is tried.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from repfl.bench.errors import UserError, one_line
from repfl.bench.grid.cell import from_json
from repfl.bench.grid.plugins import files
from repfl.bench.run import machine
from repfl.bench.run.attempt import crashed, run_task
from repfl.bench.run.task import Options, Outcome, Report, Task
from repfl.bench.store.provenance import KERNEL_VARIABLES, ROOT

MAX_TRIES = 4
"""How often a cell is started whose process dies; each time it is resumed from its checkpoint."""
REPORT_SECONDS = 0.5
"""Seconds between two progress messages of a cell."""
LOCAL_STORE = 100 << 20
"""Bytes of Ray's object store on a local cluster: outcomes are small."""


# -- the cluster -----------------------------------------------------------------------------------


def connect(workers: int | None = None) -> Any:
    """Join the cluster that RAY_ADDRESS names, or start one; return the module `ray`."""
    try:
        import ray
    except ImportError:
        raise UserError(
            '--executor ray: Ray is not installed; pip install "repfl[ray]", or use --executor'
            " processes"
        ) from None
    address = os.environ.get("RAY_ADDRESS") or "local"
    _check(address)
    if ray.is_initialized():
        return ray
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    init_options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        init_options |= {"num_cpus": workers, "include_dashboard": False}
        init_options["object_store_memory"] = LOCAL_STORE
    try:
        with _own_signals():
            ray.init(address=address, runtime_env={"env_vars": _variables()}, **init_options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise _no_answer(address, error) from None
    return ray


def _check(address: str) -> None:
    """Refuse an address that is invalid or does not answer; Ray would try it for minutes."""
    host, colon, port = address.rpartition(":")
    if address in ("auto", "local"):
        return
    if not colon or not port.isdecimal() or "/" in host:
        raise UserError(
            f"RAY_ADDRESS {address!r} is not valid; run repfl on a machine of the cluster; valid:"
            " auto, local, HOST:PORT"
        )
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError) as error:
        raise _no_answer(address, error) from None


def _no_answer(address: str, error: Exception) -> UserError:
    return UserError(f"RAY_ADDRESS {address}: no Ray cluster answers there: {one_line(error)}")


def _variables() -> dict[str, str]:
    """Return the environment of processes on all machines: this clone, one thread, and whatever the
    user's data and numeric kernels depend on.
    """
    names = {name for name in os.environ if name.startswith("REPFL_")} | set(KERNEL_VARIABLES)
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    values = {name: os.environ[name] for name in names if name in os.environ}
    return values | {"PYTHONPATH": path} | machine.ONE_THREAD


@contextmanager
def _own_signals() -> Iterator[None]:
    """Context manager: keep our signal handlers, since Ray installs one for SIGTERM."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(ValueError):  # outside the main thread, where Ray installs none
                signal.signal(number, handler)


def resolve_device(device: str, workers: int | None) -> str:
    """Return the kind of device: `auto` is the GPU if the cluster has one."""
    present = connect(workers).cluster_resources().get("GPU", 0) > 0
    if device == "cuda" and not present:
        raise UserError(
            "--device cuda: the Ray cluster has no GPU; use --device cpu, or see `ray status`"
        )
    return "cuda" if present else "cpu"


def capacity(options: Options) -> int:
    """Return how many cells the cluster runs at once."""
    resources = connect().cluster_resources()
    count = resources.get("CPU", 1)
    if options.device != "cpu":
        count = min(count, resources.get("GPU", 0) * options.per_gpu)
    return max(1, int(count))


# -- on the machines -------------------------------------------------------------------------------


class Mailbox:
    """An actor beside the driver: cells write their completed rounds, and read whether to stop."""

    def __init__(self) -> None:
        self.rounds: dict[str, int] = {}
        self.stopping = False

    def set_round(self, cell: str, rounds: int) -> bool:
        self.rounds[cell] = rounds
        return self.stopping

    def read(self) -> dict[str, int]:
        return self.rounds

    def stop(self) -> None:
        self.stopping = True


class Messenger:
    """Sends a cell's rounds to the mailbox, without waiting: answers are read at the next
    message.
    """

    def __init__(self, mailbox: Any) -> None:
        self.mailbox, self.last, self.stopping = mailbox, 0.0, False
        self.answer: Any = None

    def __call__(self, cell: str, rounds: int) -> None:
        if time.monotonic() - self.last >= REPORT_SECONDS:
            self.last = time.monotonic()
            self.stop()
            self.answer = self.mailbox.set_round.remote(cell, rounds)

    def stop(self) -> bool:
        """Return whether the cell should end: the user wants it, or the driver is gone."""
        import ray

        if self.answer is not None and ray.wait([self.answer], timeout=0)[0]:
            try:
                self.stopping = self.stopping or bool(ray.get(self.answer))
            except ray.exceptions.RayError:
                self.stopping = True
            self.answer = None
        return self.stopping


def _compute(
    cell: tuple[str, Mapping[str, Any]],
    facts: Mapping[str, Any],
    options: Options,
    plugins: Mapping[str, str],
    mailbox: Any,
) -> Outcome:
    """Compute one cell, given as its id and its JSON, on the machine that Ray has chosen. Its
    classes may be a plug-in's, which is loaded here first.
    """
    import ray

    messenger, (name, fields) = Messenger(mailbox), cell
    try:
        if ray.get(mailbox.set_round.remote(name, 0)):
            return Outcome(name, "interrupted", "stopped by the user")
        files_here = tuple(_unpacked(path, text) for path, text in plugins.items())
        device = machine.device_names(options.device)[0]
        options = replace(options, device=device)
        machine.prepare_process(replace(options, plugins=files_here))
        task = Task(from_json(fields), **facts)
    except UserError as error:
        return Outcome(name, "fatal", f"{socket.gethostname()}: {one_line(error)}")
    return run_task(task, options, messenger, messenger.stop)


@lru_cache(maxsize=64)
def _unpacked(original: str, text: str) -> str:
    """Write a user's file, as the driver has read it, under its own name on this machine."""
    path = Path(tempfile.mkdtemp(prefix="repfl-plugin-"), Path(original).name)
    path.write_text(text, encoding="utf-8")
    return str(path)


# -- in the driver ---------------------------------------------------------------------------------


def execute(
    tasks: Sequence[Task], options: Options, workers: int, report: Report, stop: Callable[[], bool]
) -> Iterator[Outcome]:
    """Send tasks to the cluster, `workers` at a time, and yield their outcomes."""
    if not tasks:
        return
    driver = Driver(options, tasks)
    try:
        while driver.tries or (driver.waiting and not driver.stopping):
            if stop() and not driver.stopping:
                driver.stopping = True
                driver.ray.get(driver.mailbox.stop.remote())
            driver.submit(workers)
            yield from driver.collect()
            driver.listen(report)
    finally:
        driver.leave()


class Driver:
    """The driver's view of the tasks on the cluster."""

    def __init__(self, options: Options, tasks: Sequence[Task]) -> None:
        self.ray, self.options, self.last = connect(), options, 0.0
        self.stopping = False
        self.waiting = deque((task, 1) for task in tasks)
        self.tries: dict[Any, tuple[Task, int]] = {}
        """Tasks that Ray has, and how often each was begun."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        this_node = NodeAffinitySchedulingStrategy(
            self.ray.get_runtime_context().get_node_id(), soft=False
        )
        self.mailbox = (
            self.ray.remote(Mailbox).options(num_cpus=0, scheduling_strategy=this_node).remote()
        )
        self.plugins = self.ray.put(
            {path: Path(path).read_text(encoding="utf-8") for path in files(options.plugins)}
        )
        self.compute = self.ray.remote(_compute)
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        self.memory = max(node.get("memory", 0) for node in nodes)

    def submit(self, workers: int) -> None:
        while self.waiting and not self.stopping and len(self.tries) < workers:
            task, attempt = self.waiting.popleft()
            if self.options.device == "cpu":
                # Ray begins a task where so much memory is not promised to others yet
                resources = {"memory": min(task.memory, self.memory) // 1}
            else:
                resources = {"num_gpus": 1 / self.options.per_gpu}
            compute = self.compute.options(num_cpus=1, max_retries=0, **resources)
            facts = {"command": task.command, "skip": task.skip, "memory": task.memory}
            cell = task.cell.id, task.cell.json
            reference = compute.remote(cell, facts, self.options, self.plugins, self.mailbox)
            self.tries[reference] = task, attempt

    def collect(self) -> Iterator[Outcome]:
        """Yield outcomes that arrive within a moment; try again the tasks of lost processes."""
        if not self.tries:
            return
        ready, _ = self.ray.wait(list(self.tries), num_returns=len(self.tries), timeout=0.2)
        for reference in ready:
            task, attempt = self.tries.pop(reference)
            try:
                yield self.ray.get(reference)
            except self.ray.exceptions.RayError as error:
                if (outcome := self.lost(task, attempt, error)) is not None:
                    yield outcome

    def lost(self, task: Task, attempt: int, error: Any) -> Outcome | None:
        """Handle a task whose process or machine died, or that no machine can run."""
        exceptions = self.ray.exceptions
        if self.stopping:
            return Outcome(task.cell.id, "interrupted", "stopped by the user")
        if isinstance(error, exceptions.RayTaskError | exceptions.RuntimeEnvSetupError):
            text = one_line(getattr(error, "cause", None) or error)[:300]
            reason = f"the machines of the Ray cluster cannot run repfl, is {ROOT} there? {text}"
            return Outcome(task.cell.id, "fatal", reason)
        if attempt >= MAX_TRIES:
            text = f"{type(error).__name__}: {one_line(error)[:200]}"
            reason = f"its process on the Ray cluster died {MAX_TRIES} times, last by {text}"
            return crashed(task, self.options, reason)
        self.waiting.appendleft((task, attempt + 1))
        return None

    def listen(self, report: Report) -> None:
        """Read the mailbox, if the last time is long enough ago."""
        if time.monotonic() - self.last < REPORT_SECONDS:
            return
        self.last = time.monotonic()
        rounds = self.ray.get(self.mailbox.read.remote())
        for task, _ in self.tries.values():
            if task.cell.id in rounds:
                report(task.cell.id, rounds[task.cell.id])

    def leave(self) -> None:
        for reference in self.tries:
            with suppress(self.ray.exceptions.RayError):
                self.ray.cancel(reference, force=True)
        self.ray.kill(self.mailbox)
