"""Run one cell to its end. Whatever happens, the outcome is a status and not an exception."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from repfl.bench.errors import StoreError, UserError, one_line, with_class
from repfl.bench.grid.plugins import line_in
from repfl.bench.run import cost, machine, record_parts
from repfl.bench.run.compute_cell import Interrupted, compute, store_record
from repfl.bench.run.task import EARLIER, Options, Outcome, Report, Task
from repfl.bench.store.locks import claim, holder
from repfl.bench.store.provenance import data_here
from repfl.bench.store.record import FINAL, Record
from repfl.bench.store.store import Store, stored_result
from repfl.datasets.core.errors import DataError

REFUSALS = (UserError, DataError)
"""Errors in the user's input; nothing is stored."""


def run_task(task: Task, options: Options, report: Report, stop: Callable[[], bool]) -> Outcome:
    """Lock a cell, compute it unless it is stored already, and store its record."""
    store, begun, cell = Store(options.results), time.perf_counter(), task.cell.id
    try:
        with claim(store, cell) as acquired:
            if not acquired:
                return Outcome(cell, "busy", holder(store, cell))
            store.recover(cell)
            existing = stored_result(store, cell)
            if existing is not None and counts_as_done(existing, options):
                status = "cached" if existing.status in ("done", "skipped") else existing.status
                return Outcome(cell, status, existing.reason, 0.0, existing.value)
            result = _attempt(task, options, store, report, stop)
    except Interrupted:
        return Outcome(cell, "interrupted", "stopped by the user")
    except StoreError as error:
        return Outcome(cell, "fatal", one_line(error))
    except REFUSALS as error:
        return Outcome(cell, "refused", one_line(error))
    seconds = time.perf_counter() - begun
    return Outcome(cell, result.status, result.reason, seconds, result.value)


def counts_as_done(record: Record, options: Options) -> bool:
    """Return whether a stored record replaces computing its cell; a failed cell is tried once in
    every run.
    """
    finished, kept = record.origin.finished, record.origin.models
    is_newer = bool(options.began) and finished >= options.began
    lacks_models = record.status == "done" and kept != (options.keep_models or kept)
    return not lacks_models and (is_newer or (record.status in FINAL and not options.fresh))


def crashed(task: Task, options: Options, reason: str) -> Outcome:
    """Store that a cell's process died, and return the outcome, so that the run goes on."""
    store = Store(options.results)
    try:
        with claim(store, task.cell.id) as acquired:
            if acquired:
                store.recover(task.cell.id)
                _without_numbers(task, options, store, "failed", reason, resumable=True)
    except UserError as error:
        return Outcome(task.cell.id, "fatal", one_line(error))
    return Outcome(task.cell.id, "failed", reason)


# -- faults become records -------------------------------------------------------------------------


def _attempt(
    task: Task, options: Options, store: Store, report: Report, stop: Callable[[], bool]
) -> Record:
    """Compute a cell and store its record; if memory runs out, try again with half as many clients
    at once.
    """
    from repfl.algorithms.core.run import Diverged

    if task.skip:
        return _without_numbers(task, options, store, "skipped", task.skip)
    try:
        options = replace(options, stack=options.stack or cost.stack_for(task.cell.recipe))
        return compute(task, options, store, report, stop)
    except (Interrupted, *REFUSALS):
        raise
    except Diverged as error:
        return _without_numbers(task, options, store, "diverged", one_line(error), _trace(error))
    # a failing cell must not stop the grid, whatever it raises
    except (Exception, SystemExit) as error:
        if options.stack < 2 or not _out_of_memory(error):
            reason = with_class(error) + line_in(error)
            return _without_numbers(task, options, store, "failed", reason, _trace(error))
    # outside the except block, where the exception no longer refers to the run's tensors
    machine.clear(options.device)
    return _attempt(task, replace(options, stack=options.stack // 2), store, report, stop)


def _without_numbers(
    task: Task,
    options: Options,
    store: Store,
    status: str,
    reason: str,
    trace: str = "",
    resumable: bool = False,
) -> Record:
    """Store a record without numbers; a failure does not replace a finished result."""
    more: dict[str, object] = {"traceback": trace} if trace else {}
    if status == "diverged":  # final, so its data must be named as a result's are
        more["data"] = data_here(task.cell.recipe.dataset)
    origin = record_parts.origin(task, options).changed(**more)
    without_numbers = Record(task.cell.id, task.cell.json, status, reason, None, origin)
    existing = stored_result(store, task.cell.id) if status == "failed" else None
    if existing is not None and existing.status in FINAL:
        return replace(without_numbers, reason=f"{reason}; {EARLIER}")
    return store_record(store, without_numbers, {}, resumable)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _out_of_memory(error: BaseException) -> bool:
    phrases = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(phrase in str(error).lower() for phrase in phrases)
