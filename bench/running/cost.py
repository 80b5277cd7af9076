"""What cells will cost, from what cells have cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from repfl.bench.cells.cell import Cell, known_entry, participants
from repfl.bench.cells.plan import Planned
from repfl.bench.cells.sense import sizes
from repfl.bench.errors import Corrupt, UserError
from repfl.bench.records.store import Record, Store

REFERENCE = {
    "tiny": 40e-6,
    "tiny-bn": 90e-6,
    "cnn4": 510e-6,
    "lenet5": 150e-6,
    "mlp": 20e-6,
    "resnet8": 1100e-6,
    "resnet10": 3200e-6,
    "resnet18": 14e-3,
    "resnet18-gn": 26e-3,
}
"""Seconds per training sample on one processor core of a server, measured; used where the store
knows nothing better.
"""
START = 0.05
"""Seconds that a cell costs beside training and scoring."""
ENOUGH = 1000
"""Training samples from which on a run says something about speed. A cell that is there for its
bytes trains on a handful.
"""
LOOKED_AT = 400
"""Records that are read for an estimate at most; ids are hashes, so that the first ones are a fair
choice.
"""


def estimates(planned: Iterable[Planned], store: Store, device: str = "cpu") -> dict[str, float]:
    """Seconds of one worker per planned cell on a kind of device."""
    planned = list(planned)
    speeds = measured(store)[device] if planned else Speeds()
    return {item.cell.id: speeds.seconds(item.cell) for item in planned}


def static(item: Planned) -> float:
    """The same without a look at any store, hence equal on every machine at any time."""
    return Speeds().seconds(item.cell)


def work_of(method: str, recipe: Mapping[str, Any]) -> float:
    """Samples that all clients go through in training, over the whole run."""
    training, cohort = recipe["training"], participants(method, recipe)
    return float(
        training["rounds"] * training["epochs"] * cohort * _per_client(recipe) * 1.15
    )  # scoring costs about a sixth on top


def _passes(method: str) -> float:
    """What a training sample costs by a method, as a multiple of FedAvg's."""
    known = known_entry(method)
    return known.cost if known is not None else 1.0


UNKNOWN = 10_000
"""Training samples that a dataset is taken to have of which nothing is published, or here."""


def _per_client(recipe: Mapping[str, Any]) -> float:
    """Training samples of a client: as the partition says, or an equal share of the pool."""
    return _dealt(recipe) * (1 - recipe["partition"].get("val_share", 0.0))


def _dealt(recipe: Mapping[str, Any]) -> float:
    """The same before some are set apart for validation."""
    from repfl.datasets.core import registry

    rule, options = recipe["partition"]["rule"], recipe["partition"]["options"]
    if isinstance(options.get("train"), int | float):
        return float(
            options["train"] * (options["classes"] if rule == "class-shards" else 1)
        )  # of a shard, or of a client
    splits = sizes(registry.get(recipe["dataset"])) or {"train": UNKNOWN}
    own, kept = options.get("train_share"), options.get("test_share")
    share = (
        own if isinstance(own, int | float) else 1 - kept if isinstance(kept, int | float) else None
    )
    pool = (
        sum(splits.values()) * share
        if share is not None
        else splits.get("train", sum(splits.values()))
    )
    return pool / float(recipe["clients"])


def _shape(recipe: Mapping[str, Any]) -> tuple[str, Any]:
    """What speed depends on most: the model and the size of its input."""
    return recipe["model"], tuple(recipe["input"]) if recipe["input"] else recipe["dataset"]


@dataclass(frozen=True)
class Speeds:
    """Seconds per training sample, as the records of a store measured them."""

    methods: Mapping[tuple[str, tuple[str, Any]], float] = field(default_factory=dict)
    """By method, model and input."""
    shapes: Mapping[tuple[str, Any], float] = field(default_factory=dict)
    """By model and input, of a method that passes once over its samples."""
    pace: float = 1.0
    """Times as long as by `REFERENCE`, over all models that were measured: what those that were not
    are expected to take.
    """

    @classmethod
    def of(cls, records: Iterable[Record]) -> Speeds:
        """What records say."""
        methods: dict[tuple[str, tuple[str, Any]], list[float]] = {}
        shapes: dict[tuple[str, Any], list[float]] = {}
        for record in records:
            method, recipe = record.cell["method"], record.cell["recipe"]
            spent = record.provenance["seconds"]
            rate = (spent["train"] + spent["evaluate"]) / work_of(method, recipe)
            methods.setdefault((method, _shape(recipe)), []).append(rate)
            shapes.setdefault(_shape(recipe), []).append(rate / _passes(method))
        known = {shape: median(values) for shape, values in shapes.items()}
        paces = [
            value / REFERENCE[model] for (model, _), value in known.items() if model in REFERENCE
        ]
        return cls(
            {key: median(values) for key, values in methods.items()},
            known,
            median(paces) if paces else 1.0,
        )

    def seconds(self, cell: Cell) -> float:
        """Seconds of one worker for a cell."""
        return START + work_of(cell.method, cell.recipe) * self._rate(cell.method, cell.recipe)

    def _rate(self, method: str, recipe: Mapping[str, Any]) -> float:
        """From what is most like the cell: its method on its model, its model, any model."""
        if (found := self.methods.get((method, _shape(recipe)))) is not None:
            return found
        alike = [value for (model, _), value in self.shapes.items() if model == recipe["model"]]
        rate = self.shapes.get(_shape(recipe)) or (
            median(alike) if alike else self.pace * REFERENCE.get(recipe["model"], 1e-3)
        )
        return rate * _passes(method)

    def knows(self, recipe: Mapping[str, Any]) -> bool:
        """Whether a cell's model was measured."""
        return any(model == recipe["model"] for model, _ in self.shapes)


DEVICES = ("cpu", "cuda")


def measured(store: Store) -> dict[str, Speeds]:
    """What a store says about each kind of device."""
    telling = [
        record for cell in store.ids()[:LOOKED_AT] if (record := _telling(store, cell)) is not None
    ]
    return {
        kind: Speeds.of(
            record for record in telling if record.provenance["device"].startswith(kind)
        )
        for kind in DEVICES
    }


def _telling(store: Store, cell: str) -> Record | None:
    """The record of a finished cell that trained long enough to speak of speed."""
    try:
        record = store.get(cell)
    except (Corrupt, UserError):
        return None
    done = record is not None and record.status == "done"
    return (
        record
        if record is not None
        and done
        and work_of(record.cell["method"], record.cell["recipe"]) >= ENOUGH
        else None
    )


def forecast(planned: Sequence[Planned], speeds: Mapping[str, Speeds]) -> dict[str, Any]:
    """What cells will cost on a CPU, and on a GPU as far as their models have run on one; and how
    much of either has been measured.
    """
    known = {
        kind: [item for item in planned if speeds[kind].knows(item.cell.recipe)] for kind in DEVICES
    }
    counted = {"cpu": planned, "cuda": known["cuda"]}
    lines = {
        kind: {
            "seconds": sum(speeds[kind].seconds(item.cell) for item in counted[kind]),
            "measured": len(known[kind]),
        }
        for kind in DEVICES
    }
    return {"cells": len(planned), **lines}


def in_words(forecast: Mapping[str, Any]) -> str:
    """A forecast in words."""
    cells, cpu, gpu = forecast["cells"], forecast["cpu"], forecast["cuda"]
    basis = {
        cells: "their models were measured here",
        0: "by reference speeds, none of their models was measured here",
    }
    source = basis.get(
        cpu["measured"],
        f"the models of {cpu['measured']:,} were measured here, the others go by reference speeds",
    )
    text = (
        f"{cells:,} cells to compute: about {duration(cpu['seconds'])} of one CPU worker ({source})"
    )
    if gpu["measured"]:
        share = "" if gpu["measured"] == cells else f" for the {gpu['measured']:,} whose models"
        return (
            f"{text}; about {duration(gpu['seconds'])} of one GPU{share}, as measured by cells of"
            " this store"
        )
    return (
        f"{text}; GPU hours cannot be told, since no cell of this store has run their models on"
        " a GPU"
    )


def total(planned: Sequence[Planned], costs: Mapping[str, float]) -> float:
    """Seconds of one worker for all of these cells together."""
    return sum(costs[item.cell.id] for item in planned)


def duration(seconds: float) -> str:
    """A duration in words short enough for a table."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    hours = seconds / 3600
    return f"{hours:.1f} h" if hours < 100 else f"{hours:,.0f} h"
