"""The run of one cell: from its recipe, or its last checkpoint, to its stored record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from repfl.bench.errors import StoreError
from repfl.bench.run import kept_models, machine, record, trackers
from repfl.bench.run.task import Clocks, Options, Task, Tell
from repfl.bench.store import checkpoint, provenance, versions
from repfl.bench.store.reported import summarise
from repfl.bench.store.store import MODELS, Record, Store

if TYPE_CHECKING:
    from repfl.algorithms.core.run import Run
    from repfl.bench.run.clients import Clients


class Interrupted(Exception):
    """The user wants to stop; the checkpoint is written."""


def compute(
    task: Task, options: Options, store: Store, tell: Tell, stop: Callable[[], bool]
) -> Record:
    """Compute a cell and store its record."""
    from repfl.bench.grid import process_state
    from repfl.bench.run.clients import clients_of, make
    from repfl.bench.run.counting import RoundCounter
    from repfl.datasets.core.cache import open_dataset

    machine.clear(options.device)
    begun, before, cell = Clocks.now(), process_state.settings(), task.cell
    with process_state.preserve_random_state():  # a data set's own code imports what it likes
        open_dataset(cell.recipe["dataset"])
        _first_use(cell.recipe["evaluation"].get("metrics", ()))
    clients = clients_of(cell)
    run = make(cell, clients, options)
    facts = _facts(task, clients, options)
    earlier, known = _begin(run, store, cell.id, facts)
    tell(cell.id, run.round)
    saved = time.perf_counter()
    norms = [record.norms(run)] if options.norms else []
    counter = RoundCounter(run.fed.rounds if options.device == "cpu" else 0, known)
    with trackers.following(options.track, cell, options.results) as follow:
        while not run.done:
            past = len(run.rows)
            counter.step(run)
            norms += [record.norms(run)] if options.norms else []
            if options.keep_models:
                kept_models.save(run, options.keep_models, store, cell.id)
            follow(run.round, {name: value for _, name, value in run.rows[past:]})
            tell(cell.id, run.round)
            if run.done:
                break
            interrupted = stop()
            if interrupted or time.perf_counter() - saved >= options.checkpoint_every:
                _save(run, store, cell.id, facts, earlier.since(begun), counter.known)
                saved = time.perf_counter()
            if interrupted:
                raise Interrupted
    if change := process_state.changed_setting(before):
        raise StoreError(
            f"method {cell.method!r} changes {change}: this process cannot be trusted with another"
            " cell"
        )
    metrics = summarise(run.rows, cell.recipe, clients.floor, run.fed.params.parameters)
    made = record.origin(task, options)
    made |= record.measured(run, clients, earlier.since(begun), options)
    made |= {"norms": record.by_group(norms)} if norms else {}
    made |= {"work": work} if (work := counter.total(run.fed.K)) else {}
    files = record.siblings(run)
    if options.keep_models:
        made["models"] = options.keep_models
        files[MODELS] = checkpoint.models_of(store, cell.id).read_bytes()
    return keep(store, Record(cell.id, cell.json, "done", "", metrics, made), files)


def _first_use(metrics: Sequence[str]) -> None:
    """Let metrics import what they need: libraries draw while they are imported."""
    from repfl.algorithms.engine.metrics import METRICS

    for name in metrics:
        with suppress(Exception):  # of a metric that cannot take this sample, a run will tell
            METRICS[name].of(torch.eye(2), torch.arange(2), 0)


def keep(
    store: Store, record: Record, siblings: dict[str, bytes], keep_checkpoint: bool = False
) -> Record:
    """Store a record; its checkpoint is then of no more use."""
    whole = store.put(record, siblings)
    if not keep_checkpoint:
        checkpoint.drop(store, record.id)
    return whole


# -- checkpoints -----------------------------------------------------------------------------------


def _facts(task: Task, clients: Clients, options: Options) -> dict[str, str]:
    """Return what a checkpoint and the run that goes on from it must have in common, or the bits
    would differ.
    """
    platform = provenance.platform_of(options.device, options.precision)["fingerprint"]
    made_by = {name: str(value) for name, value in versions.of_cell(task.cell.json).items()}
    how = {"cell": task.cell.id, "stack": str(options.stack), "platform": str(platform)}
    if options.keep_models == "best":  # which may be of a round before the checkpoint
        how["models"] = options.keep_models
    return {**how, **made_by, **clients.fingerprints}


def _begin(
    run: Run, store: Store, cell: str, facts: dict[str, str]
) -> tuple[Clocks, dict[int, int]]:
    """Begin from the last checkpoint, if there is a usable one, or from the start; return the time
    already spent, and the multiply-adds that were counted, by round.
    """
    tensors = checkpoint.load(store, cell, facts)
    if tensors is None:
        run.start()
        return Clocks(), {}
    spent = Clocks(*tensors.pop("harness/seconds").tolist())
    known = dict(tensors.pop("harness/counted").tolist())
    run.restore(tensors)
    return spent, known


def _save(
    run: Run,
    store: Store,
    cell: str,
    facts: dict[str, str],
    spent: Clocks,
    known: Mapping[int, int],
) -> None:
    import torch

    seconds = torch.tensor([spent.wall, spent.processor], dtype=torch.float64)
    counted = torch.tensor(list(known.items()), dtype=torch.int64).reshape(-1, 2)
    own = {"harness/seconds": seconds, "harness/counted": counted}
    checkpoint.save(store, cell, {**run.snapshot(), **own}, facts)
