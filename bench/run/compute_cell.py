"""Compute one cell: from its recipe, or its last checkpoint, to its stored record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from repfl.bench.errors import StoreError, UserError
from repfl.bench.run import kept_models, machine, record_parts, trackers
from repfl.bench.run.task import Clocks, Options, Report, Task
from repfl.bench.store import checkpoint, provenance, versions
from repfl.bench.store.record import MODELS, Record
from repfl.bench.store.store import Store
from repfl.bench.store.summary import summarise

if TYPE_CHECKING:
    from repfl.algorithms.core.run import Run
    from repfl.bench.grid.cell import Cell
    from repfl.bench.run.clients import Clients


class Interrupted(Exception):
    """The user stopped the run; the checkpoint is written."""


def compute(
    task: Task, options: Options, store: Store, report: Report, stop: Callable[[], bool]
) -> Record:
    """Compute a cell and store its record."""
    from repfl.bench.grid import torch_state
    from repfl.bench.run.clients import clients_of, make
    from repfl.bench.run.round_counter import RoundCounter
    from repfl.datasets.core.cache import open_dataset

    machine.clear(options.device)
    start, settings_before, cell = Clocks.now(), torch_state.settings(), task.cell
    with torch_state.preserve_random_state():  # a data set's own code imports what it likes
        open_dataset(cell.recipe.dataset)
        _first_use(cell.recipe.evaluation.metrics)
    kept_models.check_recipe(options.keep_models, cell.recipe.evaluation)
    clients = clients_of(cell)
    run = make(cell, clients, options)
    facts = _facts(task, clients, options)
    earlier, counted = _begin(run, store, cell.id, facts)
    report(cell.id, run.round)
    first = run.round + 1
    saved = time.perf_counter()
    norms = [record_parts.norms(run)] if options.norms else []
    counter = RoundCounter(run.fed.rounds if options.device == "cpu" else 0, counted)
    with trackers.following(options.track, cell, options.results) as track_round:
        while not run.done:
            previous_rows = len(run.rows)
            counter.step(run)
            if run.round == first:
                _check_settings(cell, settings_before)  # before a long run has gone on
            norms += [record_parts.norms(run)] if options.norms else []
            if options.keep_models:
                kept_models.save(run, options.keep_models, store, cell.id)
            track_round(run.round, {name: value for _, name, value in run.rows[previous_rows:]})
            report(cell.id, run.round)
            if run.done:
                break
            interrupted = stop()
            if interrupted or time.perf_counter() - saved >= options.checkpoint_every:
                _save(run, store, cell.id, facts, earlier.since(start), counter.counted)
                saved = time.perf_counter()
            if interrupted:
                raise Interrupted
    _check_settings(cell, settings_before)
    metrics = summarise(run.rows, cell.recipe.evaluation, clients.floor, run.fed.params.parameters)
    if (point := cell.recipe.evaluation.point) not in metrics.points:
        raise UserError(
            f"method {cell.method!r}: no round has a score at {point!r}, which the recipe reports;"
            ' `fed.train` scores at "pre_agg", and fed.score("...", models) wherever it is called'
        )
    details = record_parts.measured(run, clients, earlier.since(start), options)
    details |= {"norms": record_parts.by_group(norms)} if norms else {}
    details |= {"work": work} if (work := counter.total(run.fed.K)) else {}
    files = record_parts.siblings(run)
    if options.keep_models:
        details["models"] = options.keep_models
        files[MODELS] = checkpoint.models_of(store, cell.id).read_bytes()
    origin = record_parts.origin(task, options).changed(**details)
    return store_record(store, Record(cell.id, cell.json, "done", "", metrics, origin), files)


def _check_settings(cell: Cell, before: Mapping[str, str | None]) -> None:
    """Raise if the method has changed what other cells of this process rely on."""
    from repfl.bench.grid import torch_state

    if changed := torch_state.changed_setting(before):
        hint = "; random numbers come from fed.rng(PURPOSE)" * ("random" in changed)
        raise StoreError(
            f"method {cell.method!r} changes {changed}: this process cannot be trusted with another"
            f" cell{hint}"
        )


def _first_use(metrics: Sequence[str]) -> None:
    """Use each metric once, so that libraries that draw random numbers on import do so now."""
    from repfl.algorithms.engine.metrics import METRICS

    for name in metrics:
        with suppress(Exception):  # a metric that cannot take this sample fails in the run
            METRICS[name].of(torch.eye(2), torch.arange(2), 0)


def store_record(
    store: Store, record: Record, siblings: dict[str, bytes], keep_checkpoint: bool = False
) -> Record:
    """Store a record; its checkpoint is then not needed any more."""
    stored = store.put(record, siblings)
    if not keep_checkpoint:
        checkpoint.drop(store, record.id)
    return stored


# -- checkpoints -----------------------------------------------------------------------------------


def _facts(task: Task, clients: Clients, options: Options) -> dict[str, str]:
    """Return what a checkpoint and the run that resumes from it must share, or the bits would
    differ.
    """
    platform = provenance.platform_of(options.device, options.precision)["fingerprint"]
    version_facts = {name: str(value) for name, value in versions.of_cell(task.cell.json).items()}
    facts = {"cell": task.cell.id, "stack": str(options.stack), "platform": str(platform)}
    if options.keep_models == "best":  # which may be of a round before the checkpoint
        facts["models"] = options.keep_models
    return {**facts, **version_facts, **clients.fingerprints}


def _begin(
    run: Run, store: Store, cell: str, facts: dict[str, str]
) -> tuple[Clocks, dict[int, int]]:
    """Start the run, from the last usable checkpoint if there is one; return the time already
    spent, and the multiply-adds already counted by round.
    """
    tensors = checkpoint.load(store, cell, facts)
    if tensors is None:
        run.start()
        return Clocks(), {}
    spent = Clocks(*tensors.pop("harness/seconds").tolist())
    counted = dict(tensors.pop("harness/counted").tolist())
    run.restore(tensors)
    return spent, counted


def _save(
    run: Run,
    store: Store,
    cell: str,
    facts: dict[str, str],
    spent: Clocks,
    counted: Mapping[int, int],
) -> None:
    import torch

    seconds = torch.tensor([spent.wall, spent.processor], dtype=torch.float64)
    counted_rounds = torch.tensor(list(counted.items()), dtype=torch.int64).reshape(-1, 2)
    harness = {"harness/seconds": seconds, "harness/counted": counted_rounds}
    checkpoint.save(store, cell, {**run.snapshot(), **harness}, facts)
