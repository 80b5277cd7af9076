"""Optimisers and learning-rate schedules of `torch.optim`, by name and options."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from inspect import isclass, signature
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer, lr_scheduler

OPTIMISERS: dict[str, type[Optimizer]] = {
    name: cls
    for name, cls in vars(torch.optim).items()
    if isclass(cls) and issubclass(cls, Optimizer) and cls is not Optimizer
}
SCHEDULERS: dict[str, type[lr_scheduler.LRScheduler]] = {
    name: cls
    for name, cls in vars(lr_scheduler).items()
    if isclass(cls)
    and issubclass(cls, lr_scheduler.LRScheduler)
    and cls is not lr_scheduler.LRScheduler
    and not name.startswith("_")
}
FIELDS = ("lr", "momentum", "weight_decay")
"""Options that every protocol has by itself."""


@dataclass(frozen=True)
class Optimiser:
    """An optimiser with its options; fresh in every local training."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0
    name: str = "SGD"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.name not in OPTIMISERS:
            valid = ", ".join(OPTIMISERS)
            raise ValueError(f"optimiser {self.name!r} is not valid; valid: {valid}")

    @classmethod
    def of(cls, training: Any) -> Optimiser:
        """Return the optimiser of a recipe's training, at the learning rate of the first round."""
        usual = cls(training.lr, training.momentum, training.weight_decay, training.clip)
        chosen = training.optimiser
        return replace(usual, name=chosen.name, options=chosen.options) if chosen else usual

    @property
    def is_plain_sgd(self) -> bool:
        """Whether the engine's own steps, which can be stacked, compute it."""
        return self.name == "SGD" and not self.options

    def build(self, tensors: list[Tensor]) -> Optimizer:
        """Return the optimiser of `torch.optim` for these tensors."""
        cls = OPTIMISERS[self.name]
        # a weight decay of zero is passed too, since AdamW has another default
        given = {name: getattr(self, name) for name in FIELDS}
        given = {n: value for n, value in given.items() if value or n in signature(cls).parameters}
        return cls(tensors, **given, **self.options)


def options_of(cls: type) -> list[str]:
    """Return the options that an optimiser or a schedule takes."""
    return [n for n in list(signature(cls).parameters)[1:] if n not in (*FIELDS, "last_epoch")]


def learning_rates(training: Any) -> list[float]:
    """Return the learning rate of every round under a recipe's schedule."""
    optimiser = Optimiser.of(training).build([torch.zeros(2, device="cpu")])
    chosen = training.scheduler
    schedule = SCHEDULERS[chosen.name](optimiser, **chosen.options)
    rates: list[float] = []
    for _ in range(training.rounds):
        rates.append(float(optimiser.param_groups[0]["lr"]))
        optimiser.step()
        schedule.step()
    return rates


def try_out(training: Any) -> None:
    """Take a step on a vector, and all steps of the schedule; raise whatever PyTorch raises if an
    option is wrong, or if the optimiser needs more than gradients of tensors of any shape.
    """
    vector = torch.zeros(2, device="cpu", requires_grad=True)
    vector.grad = torch.ones(2, device="cpu")
    Optimiser.of(training).build([vector]).step()
    for rate in learning_rates(training) if training.scheduler else ():
        if not (math.isfinite(rate) and rate >= 0):
            raise ValueError(f"the schedule gives a learning rate of {rate:g}")
