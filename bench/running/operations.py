"""What a cell computes, counted in operations and not in seconds; no machine is asked.

A model's layers are counted once, with PyTorch, and kept in `operations.csv` for every model and
input of the grids, so that planning needs no PyTorch. `repfl.bench.evidence.pace` writes that file.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import ceil
from operator import add
from pathlib import Path
from typing import Any

from repfl.bench.cells.cell import canonical
from repfl.bench.cells.needs import participants, residents
from repfl.bench.cells.sense import sizes
from repfl.bench.cells.valid import hyperparameters, known_entry
from repfl.bench.records.provenance import HALF

FILE = Path(__file__).with_name("operations.csv")
UNKNOWN = 10_000
"""Training samples that a dataset is taken to have of which nothing is published, or here."""
SCORED = 500
"""Samples that are scored at once."""
SMALL = 4e6
"""Below so many multiplications of a training step, starting kernels takes a processor longer than
computing: `bench/SPEED.md` has what was measured.
"""
TOGETHER = 32
"""So many clients at once go through such a model."""
AUTO, WINDOWS, ONEDNN, APART = "auto", "windows", "onednn", "apart"
"""Ways to compute convolutions and linear layers on a processor."""
MOVED = 10
"""How often a round reads or writes a client's model beside its training steps: taking it apart and
together again, sending and averaging it.
"""


@dataclass(frozen=True)
class Load:
    """An amount of computing, in the terms that cost time."""

    calls: float = 0.0
    """Kernels that are started."""
    products: float = 0.0
    """Multiplications of convolutions and linear layers."""
    elements: float = 0.0
    """Values of activations and their gradients that are written."""
    parameters: float = 0.0
    """Model entries that a training step updates."""
    scored: float = 0.0
    """Values of activations that scoring writes; its large batches leave the caches."""
    moved: float = 0.0
    """Model entries that are copied, compared or averaged between training."""
    visits: float = 0.0
    """Clients that are set up, to train or to be scored."""

    def __add__(self, other: Load) -> Load:
        return Load(*map(add, vars(self).values(), vars(other).values()))

    def times(self, factor: float) -> Load:
        return Load(*(factor * value for value in vars(self).values()))


TERMS = tuple(field.name for field in fields(Load))


@dataclass(frozen=True)
class Network:
    """The layers of a model, counted: kernels of a step, and per sample elements and products, the
    latter also as small maps need them that go by windows.
    """

    parameters: float
    train_calls: float
    train_products: float
    train_windows: float
    train_elements: float
    score_calls: float
    score_products: float
    score_windows: float
    score_elements: float
    large_linear: float
    """Entries of linear layers so large that oneDNN takes them."""
    apart: float
    """Entries of convolutions whose gradients are taken apart."""

    def usual(self, precision: str = "default") -> str:
        """How a processor computes its layers, unless it is told. Half precision has kernels of its
        own.
        """
        if precision == HALF:
            return AUTO
        if self.apart or self.train_windows < self.train_products:
            return APART
        return ONEDNN if self.large_linear else AUTO

    def computed(self, conv: str) -> Network:
        """The same with its convolutions computed so."""
        if conv not in (WINDOWS, APART):
            return self
        return replace(self, train_products=self.train_windows, score_products=self.score_windows)

    def shared_by(self, clients: int) -> Network:
        """What each of so many clients has of it that go through in the same kernels."""
        calls = {"train_calls": self.train_calls, "score_calls": self.score_calls}
        return replace(self, **{name: count / clients for name, count in calls.items()})

    def step(self, samples: float) -> Load:
        """A training step: forward, backward, update."""
        return Load(
            self.train_calls,
            samples * self.train_products,
            samples * self.train_elements,
            self.parameters,
        )

    def head_step(self, samples: float) -> Load:
        """A training step of the head alone: through the body it goes forward only, and what the
        head needs weighs next to nothing.
        """
        return Load(
            2 * self.score_calls, samples * self.score_products, samples * self.score_elements
        )

    def scoring(self, samples: float) -> Load:
        """Forward passes over a client's samples."""
        return Load(
            self.score_calls * ceil(samples / SCORED),
            samples * self.score_products,
            scored=samples * self.score_elements,
            moved=self.parameters,
            visits=1,
        )


@dataclass(frozen=True)
class Work:
    """What a cell computes, were its method FedAvg."""

    steps: Load
    """Training steps of all clients and rounds."""
    around: Load
    """What a round does with its clients' models beside training them."""
    scoring: Load
    samples: float
    """Training samples that all clients go through, over the whole run."""


def together(recipe: Mapping[str, Any]) -> int:
    """How many clients a processor takes in one kernel, unless it is told."""
    step = network(*shape_of(recipe)).step(recipe["training"]["batch"])
    return TOGETHER if step.products < SMALL else 1


def convolution(recipe: Mapping[str, Any], precision: str = "default") -> str:
    """How a processor computes a recipe's convolutions and linear layers, unless it is told."""
    return network(*shape_of(recipe)).usual(precision)


def as_made(made: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    """What a command says beside the cell so that it computes as a run did, by its provenance:
    rounding follows precision, how many clients go through a kernel, and which kernels there are.
    """
    how: dict[str, Any] = {"precision": made["precision"]}
    usual: dict[str, Any] = {"precision": "default", "conv": AUTO}
    if made["chunk"]:  # else it failed before anything was settled
        how |= {"conv": conv_of(made)}
        how |= {name: made[name] for name in ("chunk", "lanes") if name in made}
        if not made["device"].startswith("cuda"):
            conv = convolution(recipe, made["precision"])
            usual |= {"conv": conv, "chunk": together(recipe), "lanes": 0}
    return "".join(f" --{name} {value}" for name, value in how.items() if value != usual.get(name))


def conv_of(made: Mapping[str, Any]) -> str:
    """How a run computed convolutions, by its provenance; early ones do not say."""
    return made.get("conv") or AUTO


def work(
    method: str,
    hp: Mapping[str, Any],
    recipe: Mapping[str, Any],
    chunk: int | None = None,
    conv: str | None = None,
) -> Work:
    """The work of a cell, with so many clients in one kernel and such convolutions; none: what a
    processor takes by itself.
    """
    training, cohort = recipe["training"], participants(method, recipe)
    shared = min(chunk or together(recipe), cohort)
    net = network(*shape_of(recipe)).computed(conv or convolution(recipe)).shared_by(shared)
    held, steps = trained_on(recipe), _steps(recipe)
    epoch, head_epoch = (step(held / steps).times(steps) for step in (net.step, net.head_step))
    whole, head = _passes(method, canonical(hp), training["epochs"])
    visits, tested = cohort * training["rounds"], net.scoring(scored_on(recipe))
    cohorts, everybody = _scored(method, hp, recipe)
    scoring = tested.times(cohorts * cohort + everybody * residents(recipe))
    if extra := _tuned(method, hp, training["epochs"]):
        scoring += epoch.times(extra * everybody * residents(recipe))
    return Work(
        (epoch.times(whole) + head_epoch.times(head)).times(visits),
        Load(moved=MOVED * net.parameters, visits=1).times(visits),
        scoring,
        visits * (whole + head) * held,
    )


@lru_cache(maxsize=4096)
def _passes(method: str, hp: str, epochs: int) -> tuple[int, int]:
    """Epochs of a round that train the body, and such of the head alone; `hp` in canonical JSON."""
    known = known_entry(method)
    if known is None:  # of a record whose method is not registered here
        return epochs, 0
    return known.cls(hyperparameters(method, json.loads(hp))).passes(epochs)


# -- samples ---------------------------------------------------------------------------------------


def trained_on(recipe: Mapping[str, Any]) -> float:
    """Training samples of a client: as the partition says, or an equal share of the pool."""
    return _dealt(recipe) * (1 - recipe["partition"].get("val_share", 0.0))


def _dealt(recipe: Mapping[str, Any]) -> float:
    """The same before some are set apart for validation."""
    if (fixed := _fixed(recipe, "train")) is not None:
        return fixed
    splits, options = _sizes(recipe), recipe["partition"]["options"]
    own, kept = options.get("train_share"), options.get("test_share")
    if isinstance(own, int | float):
        share = float(own)
    elif isinstance(kept, int | float):
        share = 1.0 - kept
    else:
        return splits.get("train", sum(splits.values())) / float(recipe["clients"])
    return sum(splits.values()) * share / float(recipe["clients"])


def scored_on(recipe: Mapping[str, Any]) -> float:
    """Samples that a client is scored on, in a round that is scored."""
    apart = _dealt(recipe) * recipe["partition"].get("val_share", 0.0)
    if (fixed := _fixed(recipe, "test")) is not None:
        return fixed + apart
    splits, kept = _sizes(recipe), recipe["partition"]["options"].get("test_share")
    if isinstance(kept, int | float):
        return sum(splits.values()) * kept / float(recipe["clients"]) + apart
    return splits.get("test", sum(splits.values()) / 4) / float(recipe["clients"]) + apart


def _fixed(recipe: Mapping[str, Any], split: str) -> float | None:
    """Samples of a client where the partition sets their number: of a shard, or of a client."""
    rule, options = recipe["partition"]["rule"], recipe["partition"]["options"]
    if not isinstance(options.get(split), int | float):
        return None
    return float(options[split] * (options["classes"] if rule == "class-shards" else 1))


def _sizes(recipe: Mapping[str, Any]) -> dict[str, int]:
    from repfl.datasets.core import registry

    return sizes(registry.get(recipe["dataset"])) or {"train": UNKNOWN}


def _steps(recipe: Mapping[str, Any]) -> float:
    """Mini-batches of an epoch; where clients hold different numbers of samples, the last one of
    each is half full.
    """
    held, batch = trained_on(recipe), recipe["training"]["batch"]
    even = _fixed(recipe, "train") is not None
    return float(max(1, ceil(held / batch) if even else held / batch + 0.5))


# -- scoring ---------------------------------------------------------------------------------------


def _scored(method: str, hp: Mapping[str, Any], recipe: Mapping[str, Any]) -> tuple[int, int]:
    """How often the cohort is scored, and how often everybody."""
    wanted, rounds = recipe["evaluation"], int(recipe["training"]["rounds"])
    first = wanted["every"] if wanted["start_every"] is None else wanted["start_every"]
    tunes = _tuned(method, hp, 1) is not None
    last = wanted["finetuned_every"] if tunes else wanted["every"]
    points = wanted["points"]
    cohorts = ("start" in points and not tunes) * _due(first, rounds, wanted["rounds"])
    cohorts += ("pre_agg" in points) * _due(wanted["every"], rounds, wanted["rounds"])
    return cohorts, ("post_agg" in points) * _due(last, rounds, wanted["rounds"])


def _due(every: int, rounds: int, named: Any) -> int:
    """Rounds that are scored."""
    regular = set(range(every, rounds + 1, every)) if every else set()
    return len(regular | {rounds} | {each for each in named if each <= rounds})


def _tuned(method: str, hp: Mapping[str, Any], epochs: int) -> float | None:
    """Epochs of training before a client is scored; none where it is scored as it is."""
    known = known_entry(method)
    tunes = known is not None and known.cls.trains_before_scoring
    if not tunes and not hp.get("final_epochs"):
        return None
    asked = hp.get("final_epochs") or hp.get("epochs")
    return float(epochs if asked is None else asked)


# -- models ----------------------------------------------------------------------------------------

Shape = tuple[str, int, int, int]
"""Model, channels and height of its input, classes."""


def shape_of(recipe: Mapping[str, Any]) -> Shape:
    """What a recipe's model is built from."""
    from repfl.datasets.core import registry

    described = registry.get(recipe["dataset"])
    height, _, channels = described.shape
    if recipe["input"]:
        channels, height = recipe["input"][0], recipe["input"][1]
    return recipe["model"], channels, height, recipe["classes"] or len(described.classes)


@lru_cache(maxsize=1)
def table() -> dict[Shape, Network]:
    """What `operations.csv` holds."""
    with FILE.open(newline="", encoding="utf-8") as file:
        return {
            (row["model"], int(row["channels"]), int(row["size"]), int(row["classes"])): Network(
                *(float(row[field.name]) for field in fields(Network))
            )
            for row in csv.DictReader(file)
        }


@lru_cache(maxsize=256)
def network(*shape: Any) -> Network:
    """A model's layers: from the table, else counted now, which takes PyTorch."""
    known = table().get(shape)
    return known if known is not None else counted(*shape)


def counted(*shape: Any) -> Network:
    """A model's layers, counted now."""
    from repfl.bench.running.counting import layers

    return Network(**layers(*shape))
