"""Bring one cell to its end. Whatever happens, the outcome is a status and not an exception."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module

from repfl.bench.errors import Corrupt, StoreError, UserError, one_line
from repfl.bench.run import cost, products
from repfl.bench.run.compute import Interrupted, Limit, compute, keep
from repfl.bench.run.memory import keep_freed_memory
from repfl.bench.run.task import Options, Outcome, Task, Tell
from repfl.bench.store import provenance
from repfl.bench.store.locks import claim, holder
from repfl.bench.store.provenance import data_here
from repfl.bench.store.store import FINAL, Record, Store, stored_result

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""What a process that computes cells must see before it imports its libraries."""


def prepare_process(options: Options) -> None:
    """Settings that all processes share, so that where a cell runs changes nothing: one thread,
    deterministic kernels, an allocator that keeps what it has.
    """
    keep_freed_memory()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    import torch
    from threadpoolctl import threadpool_limits

    from repfl.bench.grid import plugins

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
        "repfl.bench.run.clients",
        "repfl.datasets.core.partition",
        "repfl.datasets.core.cache",
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
            record = _attempt(task, options, store, tell, stop)
    except Interrupted:
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
        return _without(task, options, store, "skipped", task.skip)
    try:
        options = replace(options, stack=options.stack or cost.stack_for(task.cell.recipe))
        return compute(task, options, store, tell, stop)
    except (Interrupted, UserError, _refusals()):
        raise
    except Diverged as error:
        return _faulty(task, options, store, "diverged", error)
    except Limit as error:
        return _faulty(task, options, store, "failed", error, resumable=True)
    except (
        Exception,
        SystemExit,
    ) as error:  # a failing cell must not stop the grid, whatever it raises
        if options.stack < 2 or not _out_of_memory(error):
            return _faulty(task, options, store, "failed", error)
    _free_memory(
        options.device
    )  # out here, where the exception no longer holds what the run had allocated
    return _attempt(task, replace(options, stack=options.stack // 2), store, tell, stop)


def _faulty(
    task: Task,
    options: Options,
    store: Store,
    status: str,
    error: BaseException,
    resumable: bool = False,
) -> Record:
    """The record of a cell that came to nothing, with its traceback and the command that repeats
    it.
    """
    kind = "" if isinstance(error, Limit) or status == "diverged" else f"{type(error).__name__}: "
    trace = "".join(traceback.format_exception(error))
    return _without(task, options, store, status, kind + one_line(error), trace, resumable)


def _without(
    task: Task,
    options: Options,
    store: Store,
    status: str,
    reason: str,
    trace: str = "",
    resumable: bool = False,
) -> Record:
    """Store that a cell has no numbers, and why."""
    made = products.origin(task, options) | ({"traceback": trace} if trace else {})
    if status == "diverged":  # which is final, so its data must be told as a result's are
        made["data"] = data_here(task.cell.recipe["dataset"])
    record = Record(task.cell.id, task.cell.json, status, reason, {}, made)
    return keep(store, record, {}, resumable)


def crashed(task: Task, options: Options, reason: str) -> Outcome:
    """Store that a cell's process died, so that the grid can go on and the user knows."""
    store = Store(options.results)
    try:
        with claim(store, task.cell.id) as mine:
            if mine:
                store.recover(task.cell.id)
                stored = store.get(task.cell.id)
                if stored is None or stored.status not in FINAL:
                    _without(task, options, store, "failed", reason, resumable=True)
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
