"""The settings in which the contract of a method is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.method import build, methods
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.engine.model import Model
from repfl.bench.check import toy_model
from repfl.bench.check.recording import RecordedRun, Recording, flat
from repfl.bench.check.toy_clients import RAGGED, like, short, toy_data, toy_recipe
from repfl.bench.check.toy_model import EveryKind
from repfl.bench.grid.recipes import shape_of
from repfl.datasets.core.recipe import Recipe


@dataclass(frozen=True)
class Situation:
    """One setting in which the contract is checked."""

    method: str
    model: str
    participation: float
    hp: tuple[tuple[str, Any], ...] = ()
    setting: str = ""
    """The name of a recipe with whose model, form of data and training it is checked."""
    recipe: Recipe | None = field(default=None, compare=False, repr=False)

    @property
    def where(self) -> str:
        """The recipe or the model, in messages."""
        return self.setting or self.model

    def fresh(
        self,
        *,
        kind: type[Run] = Run,
        sizes: tuple[int, ...] = RAGGED,
        data_for: Callable[[tuple[int, ...]], ClientData] = toy_data,
        stack: int = 1,
        device: str = "cpu",
        **protocol: Any,
    ) -> Run:
        """Return the method in this situation, not yet started."""
        data = data_for(sizes)
        if self.recipe is not None:
            data, protocol = like(data, self.recipe), short(self.recipe.training) | protocol
        model = built(self.model, data.classes, self.recipe)
        recipe = toy_recipe(clients=len(sizes), participation=self.participation, **protocol)
        method = build(self.method, dict(self.hp))
        how: dict[str, Any] = {"seed": 0, "dtype": torch.float64, "stack": stack, "device": device}
        return kind(method, recipe, data, model, **how)

    def run(self, *, rounds: int | None = None, **how: Any) -> Run:
        """Return the method in this situation after some rounds (default: all)."""
        run = self.fresh(**how)
        run.start()
        for _ in range(run.fed.rounds if rounds is None else rounds):
            run.step()
        return run


def built(model: str, classes: int, recipe: Recipe | None = None) -> Model:
    """Return a model for the toy images, which are 8x8, or as a recipe's."""
    if recipe is not None:
        _, channels, size, _ = shape_of(recipe)
        return models.build(model, channels=channels, size=size, classes=classes)
    if model == toy_model.NAME:
        return Model(model, lambda: EveryKind(1, 8, classes), (1, 8, 8), classes)
    return models.build(model, channels=1, size=8, classes=classes)


def situations(
    name: str, model: str | None = None, recipe: tuple[str, Recipe] | None = None
) -> Iterator[Situation]:
    """Yield the situations of a method: all clients without batch norm, half of them with it; on a
    model or a recipe, if one is named.
    """
    entry = methods()[name]
    options = tuple(entry.fast_hp.items())
    if model is not None or recipe is not None:
        setting, of = recipe or ("", None)
        chosen = model or (of.model if of else "tiny")
        for share in (1.0,) if "p2p" in entry.needs else (1.0, 0.5):
            yield Situation(name, chosen, share, options, setting, of)
        return
    if "bn" not in entry.needs:
        yield Situation(name, "tiny", 1.0, options)
    yield Situation(name, "tiny-bn", 1.0 if "p2p" in entry.needs else 0.5, options)


def usual(case: Situation) -> Run:
    """Return a run that several promises compare with; it must not be changed."""
    return _usual(case, methods()[case.method].cls)


@lru_cache(maxsize=4)
def _usual(case: Situation, method: type) -> Run:
    return case.run(kind=RecordedRun)


def gap(one: dict[str, Tensor], other: dict[str, Tensor]) -> float:
    """Return the largest difference of two states, relative to the largest entry of a tensor."""
    if one.keys() != other.keys():
        raise ValueError(f"states differ in their tensors: {sorted(one)} and {sorted(other)}")
    pairs = [(a.double(), other[name].double()) for name, a in one.items() if a.numel()]
    return max(((a - b).abs().max() / a.abs().max().clamp(min=1e-12)).item() for a, b in pairs)


def same(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    """Return whether two lists of tensors are equal to the bit."""
    return len(one) == len(other) and all(map(torch.equal, one, other))


def client_models(run: Run) -> list[Tensor]:
    """Return the models that all clients are scored with."""
    with run.fed.as_active(range(run.fed.N)):
        return flat(run.scored_models())


def recording(run: Run) -> Recording:
    """Return the recording of a run."""
    assert isinstance(run, RecordedRun)
    return run.recording
