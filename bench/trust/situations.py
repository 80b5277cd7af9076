"""Settings as awkward as real ones, in which methods are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from repfl.algorithms import models
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.bench.trust.toys import RAGGED, toy_data, toy_recipe
from repfl.bench.trust.wiretap import JudgedRun

MODELS = ("tiny", "tiny-bn")
PARTICIPATION = (1.0, 0.5)


class Broken(Exception):
    """A promise is not kept."""


def keep(holds: bool, otherwise: str) -> None:
    """See that something holds; unlike `assert`, also where Python is told to optimise."""
    if not holds:
        raise Broken(otherwise)


@dataclass(frozen=True)
class Situation:
    """One setting in which the contract is checked."""

    method: str
    model: str
    participation: float
    hp: tuple[tuple[str, Any], ...] = ()

    def run(
        self,
        *,
        rounds: int | None = None,
        kind: type[Run] = Run,
        sizes: tuple[int, ...] = RAGGED,
        **how: Any,
    ) -> Run:
        """The method in this situation, after some rounds (default: all)."""
        run = self.fresh(kind=kind, sizes=sizes, **how)
        run.start()
        for _ in range(run.fed.rounds if rounds is None else rounds):
            run.step()
        return run

    def fresh(
        self,
        *,
        kind: type[Run] = Run,
        sizes: tuple[int, ...] = RAGGED,
        dealt: Callable[[tuple[int, ...]], ClientData] = toy_data,
        **how: Any,
    ) -> Run:
        """The method in this situation, not yet started; `how`: fields of the training protocol and
        of the lowering.
        """
        lowering = {name: how.pop(name) for name in ("chunk", "lanes", "lane") if name in how}
        data = dealt(sizes)
        model = models.build(self.model, channels=1, size=8, classes=data.classes)
        recipe = toy_recipe(clients=len(sizes), participation=self.participation, **how)
        return kind(
            build(self.method, dict(self.hp)),
            recipe,
            data,
            model,
            seed=0,
            dtype=torch.float64,
            **lowering,
        )


def usual(case: Situation) -> Run:
    """A run that several promises look at, and none goes on with."""
    return _usual(case, methods()[case.method].cls)  # type: ignore[arg-type]  # classes have hashes


@lru_cache(maxsize=4)
def _usual(case: Situation, method: type) -> Run:
    return case.run(kind=JudgedRun)


def situations(name: str) -> Iterator[Situation]:
    """Every situation in which a method is checked: with and without BN, everybody and half of the
    clients.
    """
    entry = methods()[name]
    for model in MODELS:
        if "bn" in entry.needs and model == "tiny":
            continue
        for participation in (1.0,) if "p2p" in entry.needs else PARTICIPATION:
            yield Situation(name, model, participation, tuple(entry.quick.items()))
