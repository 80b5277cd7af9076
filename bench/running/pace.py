"""How fast operations are: on the machine that the measured values were made on, as fitted to them,
and on this one, by a calibration that is remembered.

`pace.json` holds the first; `repfl.bench.evidence.pace` writes it. A calibration takes a few
seconds: seven models make a few training steps, counted in processor time, so that other programs
disturb it little. Planning never calibrates; `repfl doctor` does, and `repfl run` before a long
run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.records import provenance
from repfl.bench.records.store import write_synced
from repfl.bench.running import operations
from repfl.bench.running.operations import Load, Work
from repfl.datasets.core.paths import expanded

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation

FILE = Path(__file__).with_name("pace.json")
GROUPS = (("calls", "visits"), ("products", "elements", "scored"), ("parameters", "moved"))
"""Terms that one factor speeds up or slows down: starting kernels, computing, moving memory."""
STEPS: tuple[tuple[operations.Shape, int, int], ...] = (
    (("tiny", 1, 8, 10), 10, 20),
    (("tiny-bn", 1, 8, 10), 20, 10),
    (("lenet5", 1, 28, 11), 32, 4),
    (("cnn4", 1, 28, 10), 10, 3),
    (("cnn4", 3, 32, 10), 32, 2),
    (("resnet8", 3, 32, 10), 20, 1),
    (("resnet10", 3, 32, 100), 20, 1),
)
"""What a calibration trains and scores: a model, its batch, and how many steps."""
SCORED = 500
"""Samples that each of them scores, too."""
REPEATS = 4
HELD = 2.0
"""How strongly factors stay together that the steps do not tell apart."""
IN_A_ROW = 0.8
"""Steps that follow each other at once take this share of what they take in a cell, measured on a
processor of the reference's kind: caches keep more, and the best of several times counts.
"""
TRUST = 0.7
"""Share of a factor's logarithm that is believed: calibrations of one machine differ, too."""
LEAST, MOST = 0.05, 20.0
"""Bounds of a factor."""


@dataclass(frozen=True)
class Share:
    """What a method costs beside FedAvg: a training step as a multiple of FedAvg's; what a round
    does with a client's model, and setting a client up, likewise.
    """

    steps: float = 1.0
    moved: float = 1.0
    visits: float = 1.0


@dataclass(frozen=True)
class Pace:
    """Seconds of one core per operation, by term, and what methods cost."""

    terms: Load
    methods: Mapping[str, Share]
    scale: Mapping[str, float]
    """Times as long as by `terms`, on this machine."""

    def seconds(self, work: Work, method: str) -> float:
        """Seconds of one core for a cell's work."""
        share = self.share(method)
        around = Load(
            moved=share.moved * work.around.moved, visits=share.visits * work.around.visits
        )
        return self._of(work.steps.times(share.steps) + around + work.scoring)

    def share(self, method: str) -> Share:
        """What was measured of a method; of others what their registration says."""
        from repfl.bench.cells.valid import known_entry

        if (known := self.methods.get(method)) is not None:
            return known
        entry = known_entry(method)
        return Share(1.0 if entry is None else entry.cost)

    def _of(self, load: Load) -> float:
        return sum(
            amount * seconds * self.scale.get(term, 1.0)
            for (term, amount), seconds in zip(
                vars(load).items(), vars(self.terms).values(), strict=True
            )
        )


@lru_cache(maxsize=1)
def stored() -> dict[str, Any]:
    """What `repfl.bench.evidence.pace` has written."""
    found: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return found


@lru_cache(maxsize=1)
def reference() -> Pace:
    """The machine that the measured values were made on; the same everywhere, at any time."""
    found = stored()
    return Pace(
        Load(**found["terms"]),
        {name: Share(**share) for name, share in found["methods"].items()},
        {},
    )


def errors() -> Mapping[str, float]:
    """How far estimates were off, as deviations of logarithms, by what was known of a cell."""
    found: Mapping[str, float] = stored()["errors"]
    return found


def here() -> Pace:
    """This machine, as far as it was calibrated."""
    known = reference()
    return Pace(known.terms, known.methods, remembered())


# -- calibration -----------------------------------------------------------------------------------


def path() -> Path:
    """Where calibrations are remembered."""
    return expanded(os.environ.get("REPFL_PACE", "~/.cache/repfl/pace.json"))


def _key() -> str:
    """The machine, what computes on it, and what it was compared with; found out without
    PyTorch.
    """
    variables = [f"{name}={os.environ.get(name, '')}" for name in provenance.KERNEL_VARIABLES]
    parts = [provenance.processor(), provenance.libraries()["torch"], variables, stored()["terms"]]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _read() -> dict[str, Any]:
    try:
        found = json.loads(path().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remembered() -> dict[str, float]:
    """By how much each term is slower here than on the reference; nothing before a calibration."""
    found = _read().get(_key())
    if not isinstance(found, dict) or found.keys() != set(operations.TERMS):
        return {}
    if not all(isinstance(value, int | float) for value in found.values()):
        return {}
    return {term: min(max(float(value), LEAST), MOST) for term, value in found.items()}


def calibrate() -> dict[str, float]:
    """Measure this machine, and remember it: the mean of this time and what was known before."""
    found, known = _factors(_timed()), remembered()
    mean = {term: sqrt(value * known.get(term, value)) for term, value in found.items()}
    fresh = path().with_suffix(f".{os.getpid()}.tmp")
    with suppress(OSError):  # nowhere to remember it
        fresh.parent.mkdir(parents=True, exist_ok=True)
        write_synced(fresh, json.dumps(_read() | {_key(): mean}, indent=1).encode())
        fresh.replace(path())
    return mean


def _factors(seconds: Sequence[tuple[Load, float]]) -> dict[str, float]:
    """One factor per group of terms, so that together they explain how long loads took."""
    import numpy as np
    from scipy import optimize

    terms = reference().terms
    rows = [
        [sum(getattr(load, term) * getattr(terms, term) for term in group) for group in GROUPS]
        for load, _ in seconds
    ]
    expected = np.array(rows)
    took = np.array([took / IN_A_ROW for _, took in seconds])
    # relative errors; where steps do not tell groups apart, all are taken to be equally slow
    common = float(np.median(took / expected.sum(1)))
    design = np.vstack([expected / took[:, None], HELD / common * np.eye(len(GROUPS))])
    goal = np.concatenate([np.ones(len(took)), np.full(len(GROUPS), HELD)])
    factors = optimize.lsq_linear(design, goal, bounds=(LEAST, MOST)).x
    return {
        term: float(factor) ** TRUST
        for group, factor in zip(GROUPS, factors, strict=True)
        for term in group
    }


def _timed() -> list[tuple[Load, float]]:
    """Loads of each model with the processor seconds they take: the best of several times."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [each for shape, batch, steps in STEPS for each in _best(shape, batch, steps)]
    finally:
        torch.set_num_threads(threads)


def _best(shape: operations.Shape, batch: int, steps: int) -> Iterator[tuple[Load, float]]:
    fed, net = _federation(shape, batch, 2 * batch * steps), operations.network(*shape)
    start = fed.new_model()[None]

    def least(count: int) -> float:
        return min(_took(lambda: fed.train(start, steps=count)) for _ in range(REPEATS))

    # the difference, since what happens around steps is not what happens around them in a run
    yield net.step(batch).times(steps), max(least(2 * steps) - least(steps), 1e-4)
    took = min(_took(lambda: fed.correct(start, "test")) for _ in range(2))
    yield replace(net.scoring(SCORED), moved=0.0, visits=0.0), took


def _took(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def _federation(shape: operations.Shape, batch: int, samples: int) -> Federation:
    """One client with black pictures."""
    import torch

    from repfl.algorithms import models
    from repfl.algorithms.core.data import ClientData
    from repfl.algorithms.core.federation import Federation
    from repfl.datasets.core.recipe import Partition, Recipe, Training

    name, channels, size, classes = shape
    held = torch.arange(max(samples, SCORED))
    data = ClientData(
        torch.zeros(len(held), size, size, channels, dtype=torch.uint8),
        held % classes,
        [held[:samples]],
        [held[:SCORED]],
        [held[:0]],
        torch.full((channels,), 1 / 255),
        torch.zeros(channels),
        classes,
    )
    training = Training(rounds=1, epochs=1, batch=batch, lr=0.01, momentum=0.9)
    recipe = Recipe("digits", name, 1, Partition("client-dirichlet"), training)
    model = models.build(name, channels=channels, size=size, classes=classes)
    fed = Federation(model, data, recipe, seed=0, chunk=1)
    fed.begin(1, scoring=False)
    return fed
