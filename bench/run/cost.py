"""What cells will cost: multiply-adds by `torch.utils.flop_counter`, at four constants that were
fitted to measured values, corrected by what the records of a store say of this machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import exp, log
from statistics import median
from typing import Any

from repfl.bench.errors import Corrupt, UserError
from repfl.bench.grid.cell import Cell, canonical, known_entry, participants
from repfl.bench.grid.planned import Planned
from repfl.bench.grid.recipes import residents
from repfl.bench.run import machine, memory, samples
from repfl.bench.run.samples import multiply_adds
from repfl.bench.store.store import Record, Store

START = 0.05
"""Seconds that a cell costs beside training and scoring."""
PER_STEP, PER_TRAINED, PER_SCORED, PER_MOVED = 2.0e-3, 5.8e-11, 1.8e-10, 1.5e-7
"""Seconds of one core: of a training step; of a multiply-add in training and in scoring; of a model
entry in a client's round. With methods' own factors (`cost` in their registration) a fit to 558
measured values, of which 90 % lie within a factor of 1.3.
"""
STACKED = 0.25
"""Share of a step's seconds that is left if clients are stacked."""
SMALL_STEP = 4e6
"""Below so many multiply-adds of a training step, a CPU takes longer to start kernels than to
compute: clients of such models are stacked.
"""
STACK = 32
ENOUGH = 1000
"""Training samples from which on a record says something about speed."""
MAX_RECORDS = 400
"""Records that are read for an estimate at most; ids are hashes, so the first ones are a sample."""
DEVICES = ("cpu", "cuda")
LARGE = 4 << 30
"""Bytes of memory from which on a forecast names what a cell needs."""
SPREAD = {"reference": 2.2, "machine": 1.6, "model": 1.4, "like": 1.25}
"""Factor to either side of an estimate, by what it rests on: the reference machine, records of this
one, of the same model, of cells that differ in seed alone.
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of one worker, with a range."""

    seconds: float
    low: float
    high: float

    def per(self, workers: int) -> Cost:
        """Return what each of so many workers has of it."""
        return Cost(self.seconds / workers, self.low / workers, self.high / workers)


@dataclass(frozen=True)
class Work:
    """What a cell computes, before its method's factor."""

    steps: float
    trained: float
    scored: float
    moved: float
    samples: float
    stacked: bool

    def seconds(self, factor: float) -> float:
        """Return seconds of one core of the reference machine."""
        steps = PER_STEP * self.steps * (STACKED if self.stacked else 1.0)
        trained = factor * (steps + PER_TRAINED * self.trained + PER_MOVED * self.moved)
        return START + trained + PER_SCORED * self.scored


def stack_for(recipe: Mapping[str, Any]) -> int:
    """Return how many clients are computed at once unless the user says."""
    _, trained, _ = multiply_adds(*samples.shape_of(recipe))
    return STACK if trained * recipe["training"]["batch"] < SMALL_STEP else 1


def work(
    method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any], stack: int | None = None
) -> Work:
    """Return the work of a cell."""
    training, cohort = recipe["training"], participants(method, recipe)
    score, train, entries = multiply_adds(*samples.shape_of(recipe))
    visits = cohort * training["rounds"]
    tuning = samples.tuning_epochs(method, hp, recipe)
    cohorts, everyone = samples.scorings(recipe, tuning is not None)
    scored_clients = cohorts * cohort + everyone * residents(recipe)
    epochs = training["epochs"] * visits + (tuning or 0.0) * everyone * residents(recipe)
    trained = epochs * samples.trained_on(recipe)
    return Work(
        epochs * samples.batches(recipe),
        trained * train,
        scored_clients * samples.scored_on(recipe) * score,
        float(visits * entries),
        trained,
        (stack_for(recipe) if stack is None else stack) > 1,
    )


def seconds_at_reference(
    method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any], stack: int | None = None
) -> float:
    """Return seconds of one core of the reference machine."""
    known = known_entry(method)
    return work(method, hp, recipe, stack).seconds(1.0 if known is None else known.cost)


def _levels(method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any]) -> dict[str, str]:
    """Return what cells have in common, from what many share to what few share."""
    model = canonical([samples.shape_of(recipe), recipe["training"]["batch"]])
    like = canonical([method, hp, recipe["partition"]["options"], recipe["training"], model])
    return {"machine": "", "model": model, "like": like}


@dataclass(frozen=True)
class Speeds:
    """How long cells take on a kind of device, as the records of a store say."""

    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By level and by what cells have in common: the logarithm of measured over estimated."""
    models: frozenset[str] = frozenset()
    """Those that were measured."""
    peaks: Mapping[str, int] = field(default_factory=dict)
    """Memory that cells held at most, by what they have in common."""

    @classmethod
    def of(cls, records: Sequence[Record]) -> Speeds:
        """Learn from records by the CPU time of their cells (by the clock on a GPU)."""
        found: dict[str, dict[str, list[float]]] = {}
        models = set()
        for record in records:
            method, hp, recipe = (record.cell[name] for name in ("method", "hp", "recipe"))
            if not (spent := spent_by(record)):
                continue
            stack = record.provenance["chunk"] or None
            error = log(spent / seconds_at_reference(method, hp, recipe, stack))
            for level, key in _levels(method, hp, recipe).items():
                found.setdefault(level, {}).setdefault(key, []).append(error)
            models.add(recipe["model"])
        factors = {
            level: {key: median(errors) for key, errors in groups.items()}
            for level, groups in found.items()
        }
        return cls(factors, frozenset(models), memory.recorded(records))

    def _basis(self, cell: Cell) -> tuple[str, float]:
        """Return the closest level that records speak of, and its factor."""
        best = ("reference", 0.0)
        for level, key in _levels(cell.method, cell.hp, cell.recipe).items():
            if key in self.factors.get(level, {}):
                best = (level, self.factors[level][key])
        return best

    def seconds(self, cell: Cell) -> float:
        """Return seconds of one worker for a cell."""
        _, factor = self._basis(cell)
        return exp(factor) * seconds_at_reference(cell.method, cell.hp, cell.recipe)

    def cost(self, cells: Iterable[Cell]) -> Cost:
        """Return the seconds of all of these together, with a range."""
        total = low = high = 0.0
        for cell in cells:
            seconds, spread = self.seconds(cell), SPREAD[self._basis(cell)[0]]
            total, low, high = total + seconds, low + seconds / spread, high + seconds * spread
        return Cost(total, low, high)

    def knows(self, recipe: Mapping[str, Any]) -> bool:
        """Return whether a cell's model was measured."""
        return recipe["model"] in self.models


def spent_by(record: Record) -> float | None:
    """Return seconds that a cell took by itself: of a CPU, or on a GPU by the clock."""
    spent = record.provenance["seconds"]
    if record.provenance["device"].startswith("cuda"):
        return float(spent["train"] + spent["evaluate"])
    return float(spent["processor"]) if "processor" in spent else None


def static(item: Planned) -> float:
    """Return the seconds of a cell at the reference machine, which are equal everywhere."""
    return _static(item.cell.method, canonical(item.cell.hp), canonical(item.cell.recipe))


@cache
def _static(method: str, hp: str, recipe: str) -> float:
    import json

    return seconds_at_reference(method, json.loads(hp), json.loads(recipe))


def measured(store: Store, read: Callable[[str], Record | None] | None = None) -> dict[str, Speeds]:
    """Return what a store says of each kind of device; `read` is `store.get`, or a cached one."""
    ids = store.ids()[:MAX_RECORDS]
    records = [r for cell in ids if (r := _telling(read or store.get, cell)) is not None]
    return {
        kind: Speeds.of([r for r in records if r.provenance["device"].startswith(kind)])
        for kind in DEVICES
    }


def _telling(read: Callable[[str], Record | None], cell: str) -> Record | None:
    """Return the record of a finished cell that trained long enough to speak of speed, if its data
    set and model are known here.
    """
    from repfl.datasets.core.errors import DataError

    try:
        record = read(cell)
        if record is None or record.status != "done":
            return None
        done = work(*(record.cell[name] for name in ("method", "hp", "recipe")))
    except (Corrupt, UserError, DataError, KeyError):
        return None
    return record if done.samples >= ENOUGH else None


# -- in words --------------------------------------------------------------------------------------


def forecast(planned: Sequence[Planned], speeds: Mapping[str, Speeds]) -> dict[str, Any]:
    """Return what cells will cost on a CPU, and on a GPU as far as their models have run on one."""
    known = {
        kind: [item for item in planned if speeds[kind].knows(item.cell.recipe)] for kind in DEVICES
    }
    counted = {"cpu": planned, "cuda": known["cuda"]}
    lines = {
        kind: {
            **vars(speeds[kind].cost(item.cell for item in counted[kind])),
            "measured": len(known[kind]),
        }
        for kind in DEVICES
    }
    needs = [memory.needed(item.cell, "cpu", speeds["cpu"].peaks) for item in planned]
    return {"cells": len(planned), **lines, "memory": max(needs, default=0.0)}


def in_words(forecast: Mapping[str, Any]) -> str:
    """Return a forecast in words."""
    cells, cpu, gpu = forecast["cells"], forecast["cpu"], forecast["cuda"]
    text = f"{cells:,} cells to compute: about {between(Cost(*_ends(cpu)))} of one CPU worker"
    text += f" ({_basis(cells, cpu)})"
    if (need := forecast["memory"]) > LARGE:
        lacks = need > machine.room("cpu")[1]
        more = ", which is more than this machine has" if lacks else ""
        text += f"; up to {memory.in_words(need)} of memory for one of them{more}"
    if gpu["measured"]:
        share = "" if gpu["measured"] == cells else f" for the {gpu['measured']:,} whose models"
        return f"{text}; about {between(Cost(*_ends(gpu)))} of one GPU{share}, as measured here"
    return f"{text}; GPU time unknown: no run of these models on a GPU yet"


def _ends(told: Mapping[str, Any]) -> tuple[float, float, float]:
    return told["seconds"], told["low"], told["high"]


def _basis(cells: int, cpu: Mapping[str, Any]) -> str:
    """Return what an estimate rests on."""
    if not cpu["measured"]:
        return "at the speed of a reference machine; runs here will correct it"
    if cpu["measured"] == cells:
        return "these models were measured here"
    return f"the models of {cpu['measured']:,} were measured here"


def between(cost: Cost) -> str:
    """An estimate with its range: `2.0 h, 1.6 to 2.5 h`."""
    low, high = duration(cost.low), duration(cost.high)
    if low.rpartition(" ")[2] == high.rpartition(" ")[2]:
        low = low.rpartition(" ")[0]
    return f"{duration(cost.seconds)}, {low} to {high}"


def duration(seconds: float) -> str:
    """A duration in words short enough for a table."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"
