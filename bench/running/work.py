"""Run one cell: recipe to data, data to run, run to record. Whatever happens, the outcome is a
status and not an exception.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import TYPE_CHECKING

from repfl.bench.cells.cell import Cell
from repfl.bench.errors import Corrupt, StoreError, UserError, one_line
from repfl.bench.records import checkpoint, provenance
from repfl.bench.records.locks import claim, holder
from repfl.bench.records.store import FINAL, Record, Store, stored_result
from repfl.bench.running import products
from repfl.bench.running.memory import forget_peak, keep_freed_memory
from repfl.bench.running.metrics import summarise
from repfl.bench.running.norms import by_group, norms
from repfl.bench.running.task import GRACE, Clocks, Options, Outcome, Task, Tell
from repfl.bench.running.tuning import settled, smaller

if TYPE_CHECKING:
    from repfl.algorithms.core.run import Run


ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""What a process that computes cells must see before it imports its libraries."""


MANY = 30
"""Rounds of a run of which one is counted, which takes about half as long again."""


class _Interrupted(Exception):
    """The user wants to stop; the checkpoint is written."""


class _Limit(BaseException):
    """The cell has used up its time; no method's `except Exception` holds it up."""


def prepare_process(options: Options) -> None:
    """Settings that all processes share, so that where a cell runs changes nothing: one thread,
    deterministic kernels, an allocator that keeps what it has.
    """
    keep_freed_memory()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    from threadpoolctl import threadpool_limits

    from repfl.bench.cells import plugins

    torch.set_num_threads(1)
    provenance.blas()  # loads what is to be limited
    threadpool_limits(1)
    if options.device.startswith("cuda"):
        torch.cuda.set_device(
            options.device
        )  # whatever asks for no device in particular means this one
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.deterministic = True
    plugins.load(plugins.files(options.plugins))
    for module in (
        "repfl.algorithms.core.run",
        "repfl.bench.running.clients",
        "repfl.datasets.core.partition",
        "repfl.datasets.core.store",
    ):
        import_module(module)  # now, so that no cell's time has it


def run_task(task: Task, options: Options, tell: Tell, stop: Callable[[], bool]) -> Outcome:
    """Claim a cell, run it unless it is there already, and store its record."""
    store, begun = Store(options.results), time.perf_counter()
    try:
        with claim(store, task.cell.id) as mine:
            if not mine:
                return Outcome(task.cell.id, "busy", holder(store, task.cell.id))
            store.recover(task.cell.id)
            stored = stored_result(store, task.cell.id)
            if stored is not None and counts_as_done(stored, options):
                status = "cached" if stored.status in ("done", "skipped") else stored.status
                return Outcome(
                    task.cell.id, status, stored.reason, 0.0, stored.metrics.get("value")
                )
            record = _attempt(
                task, options if task.skip else settled(options, task.cell), store, tell, stop
            )
    except _Interrupted:
        return Outcome(task.cell.id, "interrupted", "stopped by the user")
    except StoreError as error:
        return Outcome(task.cell.id, "fatal", one_line(error))
    except (UserError, _refusals()) as error:
        return Outcome(task.cell.id, "refused", one_line(error))
    return Outcome(
        record.id,
        record.status,
        record.reason,
        time.perf_counter() - begun,
        record.metrics.get("value"),
    )


def _refusals() -> type[Exception]:
    """What data raise when they cannot be had; imported late, since listing methods needs no
    data.
    """
    from repfl.datasets.core.errors import DataError

    return DataError


def counts_as_done(record: Record, options: Options) -> bool:
    """Whether a stored record makes computing its cell needless; a failed cell is tried once in
    every run.
    """
    newer = bool(options.began) and str(record.provenance.get("finished", "")) >= options.began
    return newer or (record.status in FINAL and not options.fresh)


# -- faults become records -------------------------------------------------------------------------


def _attempt(
    task: Task, options: Options, store: Store, tell: Tell, stop: Callable[[], bool]
) -> Record:
    """Run a cell and store what came of it; out of memory is tried again with half as many clients
    at once.
    """
    from repfl.algorithms.core.run import Diverged

    if task.skip:
        return _store(
            store,
            Record(
                task.cell.id,
                task.cell.json,
                "skipped",
                task.skip,
                {},
                products.origin(task, options),
            ),
            {},
        )
    try:
        return _compute(task, options, store, tell, stop)
    except (_Interrupted, UserError, _refusals()):
        raise
    except Diverged as error:
        return _faulty(task, options, store, "diverged", error)
    except _Limit as error:
        return _faulty(task, options, store, "failed", error, keep=True)
    except (
        Exception,
        SystemExit,
    ) as error:  # a failing cell must not stop the grid, whatever it raises
        less = smaller(options) if _out_of_memory(error) else None
        if less is None:
            return _faulty(task, options, store, "failed", error)
    _free_memory(
        options.device
    )  # out here, where the exception no longer holds what the run had allocated
    return _attempt(task, less, store, tell, stop)


def _faulty(
    task: Task,
    options: Options,
    store: Store,
    status: str,
    error: BaseException,
    keep: bool = False,
) -> Record:
    """The record of a cell that came to nothing, with its traceback and the command that repeats
    it.
    """
    kind = "" if isinstance(error, _Limit) or status == "diverged" else f"{type(error).__name__}: "
    told = products.origin(task, options) | {
        "traceback": "".join(traceback.format_exception(error))
    }
    return _store(
        store,
        Record(task.cell.id, task.cell.json, status, kind + one_line(error), {}, told),
        {},
        keep,
    )


def crashed(task: Task, options: Options, reason: str) -> Outcome:
    """Store that a cell's process died, so that the grid can go on and the user knows."""
    store = Store(options.results)
    try:
        with claim(store, task.cell.id) as mine:
            stored = store.get(task.cell.id) if mine else None
            if mine and (stored is None or stored.status not in FINAL):
                record = Record(
                    task.cell.id,
                    task.cell.json,
                    "failed",
                    reason,
                    {},
                    products.origin(task, options),
                )
                _store(store, record, {}, keep_checkpoint=True)
    except UserError as error:
        return Outcome(task.cell.id, "fatal", one_line(error))
    except Corrupt as error:
        reason = one_line(error)
    return Outcome(task.cell.id, "failed", reason)


def _out_of_memory(error: BaseException) -> bool:
    text = str(error).lower()
    return (
        isinstance(error, MemoryError)
        or "out of memory" in text
        or "can't allocate memory" in text
        or "not enough memory" in text
    )


def _free_memory(device: str) -> None:
    import gc

    gc.collect()
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()


def _store(
    store: Store, record: Record, siblings: dict[str, bytes], keep_checkpoint: bool = False
) -> Record:
    whole = store.put(record, siblings)
    if not keep_checkpoint:
        checkpoint.drop(store, record.id)
    return whole


# -- the run itself --------------------------------------------------------------------------------


def _compute(
    task: Task, options: Options, store: Store, tell: Tell, stop: Callable[[], bool]
) -> Record:
    """From a cell to its stored record."""
    from repfl.bench.cells import surroundings
    from repfl.bench.running.clients import clients_of, make

    forget_peak()
    begun, before = Clocks.now(), surroundings.settings()
    clients = clients_of(task.cell)
    run = make(task.cell, clients, options)
    facts = checkpoint_facts(task.cell, options)
    with _alarm(options, begun.wall):
        earlier = _begin(run, store, task.cell.id, facts)
    tell(task.cell.id, run.round)
    saved = time.perf_counter()
    sizes, work = [norms(run)] if options.norms else [], dict[str, int]()
    while not run.done:
        with _alarm(options, begun.wall):
            if not work and options.device == "cpu" and run.fed.rounds >= MANY:
                work = _counted_step(run)
            else:
                run.step()
        sizes += [norms(run)] if options.norms else []
        tell(task.cell.id, run.round)
        spent, interrupted = earlier.since(begun), not run.done and stop()
        late = options.time_limit is not None and spent.wall > options.time_limit and not run.done
        due = time.perf_counter() - saved >= options.checkpoint_every and not run.done
        if interrupted or late or due:
            _save(run, store, task.cell.id, facts, spent)
            saved = time.perf_counter()
        if interrupted:
            raise _Interrupted
        if late:
            raise _Limit(
                f"time limit of {options.time_limit:g} s reached after round {run.round} of"
                f" {task.cell.rounds}"
            )
    if change := surroundings.moved(before):
        raise StoreError(
            f"method {task.cell.method!r} changes {change}: this process cannot be trusted with"
            " another cell"
        )
    metrics = summarise(run.rows, task.cell.recipe, clients.floor, run.fed.layout.parameters)
    origin = products.origin(task, options) | products.measured(
        run, clients, earlier.since(begun), options
    )
    origin |= ({"norms": by_group(sizes)} if sizes else {}) | ({"work": work} if work else {})
    return _store(
        store,
        Record(task.cell.id, task.cell.json, "done", "", metrics, origin),
        products.siblings(run),
    )


def _counted_step(run: Run) -> dict[str, int]:
    """Make a round, and tell what its clients and its server multiply."""
    from repfl.bench.running.counting import counted

    with counted(run) as counter:
        run.step()
    return {"clients": run.fed.K, "multiply_adds": counter.products}


@contextmanager
def _alarm(options: Options, begun: float) -> Iterator[None]:
    """Break a method off that overruns the cell's time limit by far, where no other process does;
    nothing is being written here.
    """
    if (
        options.time_limit is None
        or not options.alarm
        or threading.current_thread() is not threading.main_thread()
    ):
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise _Limit(f"time limit of {options.time_limit:g} s reached within a round")

    left = begun + options.time_limit + GRACE - time.perf_counter()
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(
        signal.ITIMER_REAL, max(left, 0.001), 1.0
    )  # and again, should something hold up the first
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def checkpoint_facts(cell: Cell, options: Options) -> dict[str, str]:
    """What a checkpoint and the run that goes on from it must have in common, or the bits would
    differ.
    """
    where = provenance.platform_of(options.device, options.precision)["fingerprint"]
    how = f"{options.chunk} x {options.lanes} {options.conv}"
    return {"cell": cell.id, "chunk": how, "platform": str(where), **provenance.of_cell(cell.json)}


def _begin(run: Run, store: Store, cell: str, facts: dict[str, str]) -> Clocks:
    """From the last checkpoint, if there is a usable one, or from the start; returns the seconds
    already spent.
    """
    tensors = checkpoint.load(store, cell, facts)
    if tensors is None:
        run.start()
        return Clocks()
    spent = Clocks.told(*tensors.pop("harness/seconds").flatten().tolist())
    run.restore(tensors)
    return spent


def _save(run: Run, store: Store, cell: str, facts: dict[str, str], spent: Clocks) -> None:
    import torch

    seconds = torch.tensor([spent.wall, spent.processor], dtype=torch.float64)
    tensors = {**run.snapshot(), "harness/seconds": seconds}
    checkpoint.save(store, cell, tensors, facts)
