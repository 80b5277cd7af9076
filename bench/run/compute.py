"""The run of one cell: from its recipe, or its last checkpoint, to its stored record."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from repfl.bench.errors import StoreError
from repfl.bench.grid.cell import Cell
from repfl.bench.run import products
from repfl.bench.run.memory import forget_peak
from repfl.bench.run.metrics import summarise
from repfl.bench.run.norms import by_group, norms
from repfl.bench.run.task import GRACE, Clocks, Options, Task, Tell
from repfl.bench.store import checkpoint, provenance, versions
from repfl.bench.store.store import Record, Store

if TYPE_CHECKING:
    from repfl.algorithms.core.run import Run
    from repfl.bench.run.clients import Clients


class Interrupted(Exception):
    """The user wants to stop; the checkpoint is written."""


class Limit(BaseException):
    """The cell has used up its time; no method's `except Exception` holds it up."""


def compute(
    task: Task, options: Options, store: Store, tell: Tell, stop: Callable[[], bool]
) -> Record:
    """From a cell to its stored record."""
    from repfl.bench.grid import plugins
    from repfl.bench.run.clients import clients_of, make
    from repfl.bench.run.counting import RoundCounter
    from repfl.datasets.core.cache import open_dataset

    forget_peak()
    begun, before = Clocks.now(), plugins.settings()
    with plugins.randomness_kept():  # a data set's own code imports what it likes
        open_dataset(task.cell.recipe["dataset"])
    clients = clients_of(task.cell)
    run = make(task.cell, clients, options)
    facts = checkpoint_facts(task.cell, clients, options)
    with _alarm(options, begun.wall):
        earlier, known = _begin(run, store, task.cell.id, facts)
    tell(task.cell.id, run.round)
    saved = time.perf_counter()
    sizes = [norms(run)] if options.norms else []
    counter = RoundCounter(run.fed.rounds if options.device == "cpu" else 0, known)
    while not run.done:
        with _alarm(options, begun.wall):
            counter.step(run)
        sizes += [norms(run)] if options.norms else []
        tell(task.cell.id, run.round)
        spent, interrupted = earlier.since(begun), not run.done and stop()
        late = options.time_limit is not None and spent.wall > options.time_limit and not run.done
        due = time.perf_counter() - saved >= options.checkpoint_every and not run.done
        if interrupted or late or due:
            _save(run, store, task.cell.id, facts, spent, counter.known)
            saved = time.perf_counter()
        if interrupted:
            raise Interrupted
        if late:
            raise Limit(
                f"time limit of {options.time_limit:g} s reached after round {run.round} of"
                f" {task.cell.rounds}"
            )
    if change := plugins.moved(before):
        raise StoreError(
            f"method {task.cell.method!r} changes {change}: this process cannot be trusted with"
            " another cell"
        )
    metrics = summarise(run.rows, task.cell.recipe, clients.floor, run.fed.params.parameters)
    origin = products.origin(task, options) | products.measured(
        run, clients, earlier.since(begun), options
    )
    work = counter.total(run.fed.K)
    origin |= ({"norms": by_group(sizes)} if sizes else {}) | ({"work": work} if work else {})
    record = Record(task.cell.id, task.cell.json, "done", "", metrics, origin)
    return keep(store, record, products.siblings(run))


def keep(
    store: Store, record: Record, siblings: dict[str, bytes], keep_checkpoint: bool = False
) -> Record:
    """Put a record in its place; nobody needs its checkpoint any more."""
    whole = store.put(record, siblings)
    if not keep_checkpoint:
        checkpoint.drop(store, record.id)
    return whole


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
        raise Limit(f"time limit of {options.time_limit:g} s reached within a round")

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


def checkpoint_facts(cell: Cell, clients: Clients, options: Options) -> dict[str, str]:
    """What a checkpoint and the run that goes on from it must have in common, or the bits would
    differ.
    """
    where = provenance.platform_of(options.device, options.precision)["fingerprint"]
    return {
        "cell": cell.id,
        "stack": str(options.stack),
        "platform": str(where),
        **{name: str(version) for name, version in versions.of_cell(cell.json).items()},
        **clients.fingerprints,
    }


def _begin(
    run: Run, store: Store, cell: str, facts: dict[str, str]
) -> tuple[Clocks, dict[int, int]]:
    """From the last checkpoint, if there is a usable one, or from the start; returns the seconds
    already spent, and what was counted, by round.
    """
    tensors = checkpoint.load(store, cell, facts)
    if tensors is None:
        run.start()
        return Clocks(), {}
    spent = Clocks.told(*tensors.pop("harness/seconds").flatten().tolist())
    known = tensors.pop("harness/counted", None)
    run.restore(tensors)
    return spent, dict([] if known is None else known.tolist())


def _save(
    run: Run,
    store: Store,
    cell: str,
    facts: dict[str, str],
    spent: Clocks,
    known: Mapping[int, int],
) -> None:
    import torch

    own = {
        "harness/seconds": torch.tensor([spent.wall, spent.processor], dtype=torch.float64),
        "harness/counted": torch.tensor(list(known.items()), dtype=torch.int64).reshape(-1, 2),
    }
    checkpoint.save(store, cell, {**run.snapshot(), **own}, facts)
