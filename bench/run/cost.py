"""Estimates of how long cells take: multiply-adds and outputs of layers, at constants that were
fitted to committed runs, times a factor of the method, corrected by the records of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from math import ceil, exp, log
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.grid.cell import Cell, canonical
from repfl.bench.grid.methods import find_entry, participants
from repfl.bench.grid.planned import Planned
from repfl.bench.grid.recipes import Shape, shape_of, stored_recipe
from repfl.bench.store.record import Record
from repfl.bench.store.store import Store

if TYPE_CHECKING:
    from repfl.datasets.core.recipe import Recipe

FIXED_SECONDS = 0.05
"""Seconds of a cell besides training and scoring."""
PER_MULTIPLY_ADD, PER_OUTPUT, PER_MOVED = 3.0e-12, 1.05e-8, 1.0e-7
"""Seconds of one core: of a multiply-add, of an output of a layer in training, and of a model entry
in a client's round. With methods' own factors (`cost` in their registration) a fit to 1,303
committed runs of one client at a time: 96 % lie within a factor of 1.6, 99.7 % within 2.2.
"""
PER_STEP = 7.5e-4
"""Seconds that a training step takes at least, as in toy runs of stacked clients."""
SMALL_STEP = 4e6
"""If a training step has fewer multiply-adds, a CPU takes longer to start kernels than to compute:
clients of such models are stacked.
"""
STACK = 32
MIN_SAMPLES = 1000
"""Training samples from which on a record is used to estimate speed."""
ASSUMED_SAMPLES = 10_000
"""Training samples assumed of a data set whose sizes are neither published nor here."""
MAX_RECORDS = 400
"""Records that are read for an estimate; ids are hashes, so the first ones are a random sample."""
DEVICES = ("cpu", "cuda")
RANGE, RANGE_MEASURED = 2.2, 1.4
"""Factors to either side of an estimate: without and with records of the same model."""


# -- what a cell computes --------------------------------------------------------------------------


class Size(NamedTuple):
    """What a model computes per sample."""

    scored: float
    """Multiply-adds of scoring."""
    trained: float
    """Multiply-adds of training."""
    entries: int
    """Parameters and buffers."""
    outputs: float
    """Outputs of all layers."""


@lru_cache(maxsize=256)
def multiply_adds(model: str, channels: int, size: int, classes: int) -> Size:
    """Return multiply-adds and outputs of a model."""
    import torch
    from torch.nn.modules.module import register_module_forward_hook
    from torch.utils.flop_counter import FlopCounterMode

    from repfl.algorithms import models

    built = models.build(model, channels=channels, size=size, classes=classes)
    net = built.at(torch.device("meta"), torch.float32)
    tensors = {part.name: torch.empty(part.shape, device="meta") for part in net.params}
    for part in net.params.trained:
        tensors[part.name].requires_grad_()
    x = net.example("meta")
    outputs = 0

    def add(module: torch.nn.Module, _: object, output: object) -> None:
        nonlocal outputs
        if isinstance(output, torch.Tensor) and not any(module.children()):
            outputs += output.numel()

    hook = register_module_forward_hook(add)
    try:
        with FlopCounterMode(display=False) as forward:
            logits = net.bind(tensors)(x)
    finally:
        hook.remove()
    with FlopCounterMode(display=False) as backward:
        logits.sum().backward()
    scored = forward.get_total_flops() / 4
    trained = scored + backward.get_total_flops() / 4
    return Size(scored, trained, net.params.size, outputs / len(x))


def stack_for(recipe: Recipe) -> int:
    """Return how many clients are computed at once by default."""
    trained = multiply_adds(*shape_of(recipe)).trained
    return STACK if trained * recipe.training.batch < SMALL_STEP else 1


def samples_of(recipe: Recipe) -> tuple[float, float]:
    """Return the samples per client for training and for scoring, by the partition's options, or an
    equal share.
    """
    from repfl.datasets.core import cache, registry

    rule, options = recipe.partition.rule, recipe.partition.options
    splits = cache.sizes(registry.get(recipe.dataset)) or {"train": ASSUMED_SAMPLES}
    numbers = {name: value for name, value in options.items() if isinstance(value, int | float)}
    of_class = numbers["classes"] if rule == "class-shards" else 1  # where samples are per class
    per_client = sum(splits.values()) / recipe.clients
    train = splits.get("train", sum(splits.values())) / recipe.clients
    test = splits.get("test", sum(splits.values()) / 4) / recipe.clients
    if "test_share" in numbers:
        train, test = per_client * (1.0 - numbers["test_share"]), per_client * numbers["test_share"]
    if "train_share" in numbers:
        train = per_client * numbers["train_share"]
    train = float(numbers["train"] * of_class) if "train" in numbers else train
    test = float(numbers["test"] * of_class) if "test" in numbers else test
    validation = train * (recipe.partition.val_share or 0.0)
    return train - validation, test + validation


def _batches(recipe: Recipe) -> float:
    """Return the mini-batches of an epoch; if clients have different numbers of samples, the last
    batch of each counts as half full.
    """
    samples, batch = samples_of(recipe)[0], recipe.training.batch
    even = isinstance(recipe.partition.options.get("train"), int | float)
    return float(max(1, ceil(samples / batch) if even else samples / batch + 0.5))


def _scorings(recipe: Recipe, tunes: bool) -> tuple[int, int]:
    """Return how often the participants are scored, and how often all clients; `tunes`: clients
    train before they are scored.
    """
    evaluation, rounds = recipe.evaluation, recipe.training.rounds
    points, often = evaluation.points, evaluation.every

    def due(every: int) -> int:
        listed = {rounds, *(each for each in evaluation.rounds if each <= rounds)}
        regular = rounds // every if every else 0
        return regular + sum(not every or each % every > 0 for each in listed)

    first = often if evaluation.start_every is None else evaluation.start_every
    cohorts = ("start" in points and not tunes) * due(first) + ("pre_agg" in points) * due(often)
    last = evaluation.finetuned_every if tunes else often
    return cohorts, ("post_agg" in points) * due(last)


def _tuning_epochs(method: str, hp: Mapping[str, Any], recipe: Recipe) -> float | None:
    """Return the epochs of training before clients are scored; None if there is none."""
    from repfl.algorithms.core.method import with_hp
    from repfl.bench.grid.methods import hyperparameters

    method_entry = find_entry(method)
    if method_entry is None:
        return None
    if not with_hp(method_entry.cls, hyperparameters(method, dict(hp))).personalizes:
        return None
    epochs = hp.get("final_epochs") or hp.get("epochs")
    return recipe.training.epochs_of(samples_of(recipe)[0]) if epochs is None else float(epochs)


@dataclass(frozen=True)
class Work:
    """The amount that a cell computes, before its method's factor."""

    steps: float
    trained: float
    """Seconds of training, beside what steps and moved entries take."""
    scored: float
    """Seconds of scoring."""
    moved: float
    samples: float


def work(method: str, hp: Mapping[str, Any], recipe: Recipe) -> Work:
    """Return the amount of work of a cell."""
    training, cohort, everyone = recipe.training, participants(method, recipe), recipe.residents
    size = multiply_adds(*shape_of(recipe))
    train = PER_MULTIPLY_ADD * size.trained + PER_OUTPUT * size.outputs
    # a forward pass is a third of training
    score = PER_MULTIPLY_ADD * size.scored + PER_OUTPUT * size.outputs / 3
    visits = cohort * training.rounds
    tuning = _tuning_epochs(method, hp, recipe)
    cohorts, whole = _scorings(recipe, tuning is not None)
    trains_on, scored_on = samples_of(recipe)
    epochs = training.epochs_of(trains_on) * visits + (tuning or 0.0) * whole * everyone
    return Work(
        epochs * _batches(recipe),
        epochs * trains_on * train,
        (cohorts * cohort + whole * everyone) * scored_on * score,
        float(visits * size.entries),
        epochs * trains_on,
    )


# -- how long it takes -----------------------------------------------------------------------------


def seconds_at_reference(method: str, hp: Mapping[str, Any], recipe: Recipe) -> float:
    """Return seconds of one core of the reference machine."""
    amount = work(method, hp, recipe)
    trained = max(PER_STEP * amount.steps, amount.trained) + PER_MOVED * amount.moved
    return FIXED_SECONDS + _factor(method, hp, recipe) * trained + amount.scored


def _factor(method: str, hp: Mapping[str, Any], recipe: Recipe) -> float:
    """Return what the method's training costs, as a multiple of FedAvg's."""
    from repfl.bench.grid.methods import hyperparameters

    if (method_entry := find_entry(method)) is None:
        return 1.0
    if not callable(cost := method_entry.cost):
        return cost
    samples = samples_of(recipe)[0]
    return cost(hyperparameters(method, dict(hp)), recipe.training.epochs_of(samples), samples)


def static(item: Planned) -> float:
    """Return the seconds of a cell on the reference machine, equal on every machine."""
    return _static(
        item.cell.method, canonical(item.cell.options), canonical(item.cell.json["recipe"])
    )


@cache
def _static(method: str, hp: str, recipe: str) -> float:
    import json

    return seconds_at_reference(method, json.loads(hp), stored_recipe(recipe))


@dataclass(frozen=True)
class Cost:
    """Seconds of one worker, with a range."""

    seconds: float
    low: float
    high: float


class Speeds:
    """Estimates how long cells take on a kind of device, from the CPU time of recorded cells (on a
    GPU, the wall-clock time).
    """

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records = records
        errors: dict[Any, list[float]] = {}
        for record in records:
            method, hp, recipe = record.cell["method"], record.cell["hp"], record.recipe
            if seconds := spent_by(record):
                error = log(seconds / seconds_at_reference(method, hp, recipe))
                errors.setdefault(_model(recipe), []).append(error)
        self.factors = {key: exp(median(logs)) for key, logs in errors.items()}
        """Measured over estimated seconds, by model."""

    def has_measured(self, recipe: Recipe) -> bool:
        """Return whether there are records of a cell's model."""
        return _model(recipe) in self.factors

    def seconds(self, cell: Cell) -> float:
        """Return seconds of one worker for a cell."""
        factor = self.factors.get(_model(cell.recipe), 1.0)
        return factor * seconds_at_reference(cell.method, cell.options, cell.recipe)

    def cost(self, cells: Iterable[Cell]) -> Cost:
        """Return the seconds of all cells together, with a range."""
        total = low = high = 0.0
        for cell in cells:
            seconds = self.seconds(cell)
            factor = RANGE_MEASURED if self.has_measured(cell.recipe) else RANGE
            total, low, high = total + seconds, low + seconds / factor, high + seconds * factor
        return Cost(total, low, high)


def _model(recipe: Recipe) -> tuple[Shape, int]:
    return shape_of(recipe), recipe.training.batch


def spent_by(record: Record) -> float | None:
    """Return the seconds that a cell took: of CPU time, or on a GPU by the clock."""
    spent = record.origin.seconds
    if spent is None:
        return None
    return spent.train + spent.evaluate if record.origin.on_gpu else spent.processor


def measured(store: Store, read: Callable[[str], Record | None] | None = None) -> dict[str, Speeds]:
    """Return a store's speeds of each kind of device; `read` is `store.get`, or a cached one."""
    ids = store.ids()[:MAX_RECORDS]
    records = [r for cell in ids if (r := _usable_record(read or store.get, cell)) is not None]
    return {
        kind: Speeds([r for r in records if r.origin.device.startswith(kind)]) for kind in DEVICES
    }


def _usable_record(read: Callable[[str], Record | None], cell: str) -> Record | None:
    """Return the record of a finished cell that trained long enough to estimate speed; None
    otherwise, or if its data set or model is not available here.
    """
    from repfl.algorithms.engine.model import ModelError
    from repfl.datasets.core.errors import DataError

    try:
        record = read(cell)
        if record is None or record.status != "done":
            return None
        amount = work(record.cell["method"], record.cell["hp"], record.recipe)
    except (Corrupt, UserError, DataError, KeyError, ModelError):
        return None
    return record if amount.samples >= MIN_SAMPLES else None


# -- in words --------------------------------------------------------------------------------------


def between(cost: Cost) -> str:
    """Return an estimate with its range: `2.0 h, 1.6 to 2.5 h`."""
    low, high = duration(cost.low), duration(cost.high)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{duration(cost.seconds)}, {low} to {high}"


def duration(seconds: float) -> str:
    """Return a duration in words short enough for a table."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"
