"""Replayed steps without a GPU: a record runs the step again, on the tensors it was made with."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.algorithms.engine import captured
from repfl.algorithms.engine.batches import Feed
from repfl.algorithms.engine.captured import Graph, Replayed
from repfl.algorithms.engine.client import State
from repfl.algorithms.engine.training import Trainer
from tests.algorithms import toys


class Again:
    """A recorder whose graphs are Python: a replay runs the step on the graph's own feed."""

    def __init__(self) -> None:
        self.refused: set[object] = set()
        self.replays = 0

    def record(self, body: captured.Body, feed: Feed, state: State) -> Graph:
        own = Feed(feed.index.clone(), {name: drawn.clone() for name, drawn in feed.draws.items()})
        memory = {kind: dict(named) for kind, named in state.items()}
        out: captured.Out = ({}, {})

        def replay() -> None:
            self.replays += 1
            for kind, named in memory.items():
                state[kind].update(named)  # a graph knows no other tensors
            for into, made in zip(out, body(own), strict=True):
                into.update(made)
            assert captured.settled(state, memory)

        return Graph(replay, own, out)


@pytest.mark.parametrize("stack", [1, 6])
@pytest.mark.parametrize("name", ["fedavg", "apfl", "fedselect", "floco", "pfedfda"])
def test_steps_that_are_replayed_give_the_same_bits(
    name: str, stack: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "momentum": 0.9, "stack": stack, "epochs": 3}
    plain = toys.run(name, dict(methods()[name].quick), **how)
    again = Again()
    monkeypatch.setattr(captured, "recorder", lambda: again)
    monkeypatch.setattr(captured, "OFTEN", 2)

    def steps(trainer: Trainer, step: Any, optimiser: Any, state: State, keys: Any) -> Replayed:
        return Replayed(step, state, keys)

    monkeypatch.setattr(Trainer, "_steps", steps)
    replayed = toys.run(name, dict(methods()[name].quick), **how)
    assert again.replays > 10
    for key, value in plain.state.items():
        assert torch.equal(value, replayed.state[key]), key
