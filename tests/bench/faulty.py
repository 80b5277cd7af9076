"""Methods that go wrong, for tests of what the harness does then."""

from __future__ import annotations

import os
import time

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


@hyperparameters
class HP:
    """When it goes wrong."""

    at: int = param(2, "round in which it goes wrong", ge=1)
    seconds: float = param(0.05, "how long a round takes", ge=0)


class Steady(Method):
    """Averages models, slowly."""

    HP = HP

    def init(self, fed: Federation) -> State:
        return {"theta": fed.new_model()}

    def round(self, state: State, fed: Federation) -> State:
        if fed.round >= self.hp.at:
            self.fault(fed)
        time.sleep(self.hp.seconds)
        start = fed.down(state["theta"].expand(fed.K, -1))
        return {"theta": fed.mean(fed.up(fed.train(start)))}

    def fault(self, fed: Federation) -> None:
        """What goes wrong."""

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["theta"].expand(fed.K, -1)


def misbehave(name: str) -> object:
    return register(
        name, title=name, paper="none", year=2026, family="partial", sends="the whole model"
    )


@misbehave("test-slow")
class Slow(Steady):
    """Takes its time and is right."""


@misbehave("test-raise")
class Raises(Steady):
    """Raises an exception, unless it is told that it is mended."""

    def fault(self, fed: Federation) -> None:
        if "REPFL_TEST_MENDED" not in os.environ:
            raise ZeroDivisionError("on\npurpose")


@misbehave("test-wordy")
class Wordy(Steady):
    """Raises an exception with a message that fills many screens."""

    def fault(self, fed: Federation) -> None:
        raise ValueError("word" * 25_000)


@misbehave("test-unscored")
class Unscored(Steady):
    """Never calls `fed.train`, which would score what clients have trained."""

    def round(self, state: State, fed: Federation) -> State:
        return {"theta": state["theta"] + 1}


@misbehave("test-memory")
class Memory(Steady):
    """Runs out of memory while clients are stacked."""

    def fault(self, fed: Federation) -> None:
        if fed.stack > 1:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


@misbehave("test-die")
class Dies(Steady):
    """Kills its process, as the system does when memory is short."""

    def fault(self, fed: Federation) -> None:
        os.kill(os.getpid(), 9)


@misbehave("test-nan")
class Diverges(Steady):
    """Its model is no longer a number."""

    def round(self, state: State, fed: Federation) -> State:
        new = super().round(state, fed)
        return {"theta": new["theta"] + (torch.nan if fed.round == self.hp.at else 0.0)}
