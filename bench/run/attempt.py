"""Bring one cell to its end. Whatever happens, the outcome is a status and not an exception."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from repfl.bench.errors import StoreError, UserError, one_line, with_class
from repfl.bench.grid.plugins import line_in
from repfl.bench.run import cost, machine, record
from repfl.bench.run.compute import Interrupted, compute, keep
from repfl.bench.run.task import Options, Outcome, Task, Tell
from repfl.bench.store.locks import claim, holder
from repfl.bench.store.provenance import data_here
from repfl.bench.store.store import FINAL, Record, Store, stored_result
from repfl.datasets.core.errors import DataError

REFUSALS = (UserError, DataError)
"""Errors in what the user gave; nothing is stored."""


def run_task(task: Task, options: Options, tell: Tell, stop: Callable[[], bool]) -> Outcome:
    """Claim a cell, compute it unless it is stored already, and store its record."""
    store, begun, cell = Store(options.results), time.perf_counter(), task.cell.id
    try:
        with claim(store, cell) as mine:
            if not mine:
                return Outcome(cell, "busy", holder(store, cell))
            store.recover(cell)
            stored = stored_result(store, cell)
            if stored is not None and counts_as_done(stored, options):
                status = "cached" if stored.status in ("done", "skipped") else stored.status
                return Outcome(cell, status, stored.reason, 0.0, stored.metrics.get("value"))
            made = _attempt(task, options, store, tell, stop)
    except Interrupted:
        return Outcome(cell, "interrupted", "stopped by the user")
    except StoreError as error:
        return Outcome(cell, "fatal", one_line(error))
    except REFUSALS as error:
        return Outcome(cell, "refused", one_line(error))
    seconds = time.perf_counter() - begun
    return Outcome(cell, made.status, made.reason, seconds, made.metrics.get("value"))


def counts_as_done(record: Record, options: Options) -> bool:
    """Return whether a stored record makes computing its cell needless; a failed cell is tried once
    in every run.
    """
    newer = bool(options.began) and str(record.provenance.get("finished", "")) >= options.began
    models = options.keep_models or record.provenance.get("models", "")
    lacks = record.status == "done" and record.provenance.get("models", "") != models
    return newer or (record.status in FINAL and not options.fresh and not lacks)


def crashed(task: Task, options: Options, reason: str) -> Outcome:
    """Store that a cell's process died, so that the grid can go on and the user knows."""
    store = Store(options.results)
    try:
        with claim(store, task.cell.id) as mine:
            if mine:
                store.recover(task.cell.id)
                _without(task, options, store, "failed", reason, resumable=True)
    except UserError as error:
        return Outcome(task.cell.id, "fatal", one_line(error))
    return Outcome(task.cell.id, "failed", reason)


# -- faults become records -------------------------------------------------------------------------


def _attempt(
    task: Task, options: Options, store: Store, tell: Tell, stop: Callable[[], bool]
) -> Record:
    """Compute a cell and store what came of it; out of memory is tried again with half as many
    clients at once.
    """
    from repfl.algorithms.core.run import Diverged

    if task.skip:
        return _without(task, options, store, "skipped", task.skip)
    try:
        options = replace(options, stack=options.stack or cost.stack_for(task.cell.recipe))
        return compute(task, options, store, tell, stop)
    except (Interrupted, *REFUSALS):
        raise
    except Diverged as error:
        return _without(task, options, store, "diverged", one_line(error), _trace(error))
    # a failing cell must not stop the grid, whatever it raises
    except (Exception, SystemExit) as error:
        if options.stack < 2 or not _out_of_memory(error):
            reason = with_class(error) + line_in(error)
            return _without(task, options, store, "failed", reason, _trace(error))
    # out here, where the exception no longer holds what the run had allocated
    machine.clear(options.device)
    return _attempt(task, replace(options, stack=options.stack // 2), store, tell, stop)


def _without(
    task: Task,
    options: Options,
    store: Store,
    status: str,
    reason: str,
    trace: str = "",
    resumable: bool = False,
) -> Record:
    """Store that a cell has no numbers, and why; a failure does not replace a finished result."""
    made = record.origin(task, options) | ({"traceback": trace} if trace else {})
    if status == "diverged":  # final, so its data must be named as a result's are
        made["data"] = data_here(task.cell.recipe["dataset"])
    none = Record(task.cell.id, task.cell.json, status, reason, {}, made)
    stored = stored_result(store, task.cell.id) if status == "failed" else None
    if stored is not None and stored.status in FINAL:
        return replace(none, reason=f"{reason}; the earlier result stays")
    return keep(store, none, {}, resumable)


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def _out_of_memory(error: BaseException) -> bool:
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(each in str(error).lower() for each in words)
