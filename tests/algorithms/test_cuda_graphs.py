"""Replayed steps without a GPU: a record runs the step again, on the tensors it was made with."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from repfl.algorithms.core.method import methods
from repfl.algorithms.engine import cuda_graphs
from repfl.algorithms.engine.batches import Batch, Feed
from repfl.algorithms.engine.client import Client, ClientState
from repfl.algorithms.engine.cuda_graphs import Graph, Replayed
from repfl.algorithms.engine.training import Trainer
from tests.algorithms import toys
from tests.algorithms.test_engine import federation


class Again:
    """A capture whose graphs are Python: a replay runs the step on the graph's own feed."""

    def __init__(self) -> None:
        self.refused: set[object] = set()
        self.made = self.replays = 0

    def record(self, body: cuda_graphs.Body, feed: Feed, state: ClientState) -> Graph:
        own = Feed(feed.index.clone(), {name: drawn.clone() for name, drawn in feed.draws.items()})
        memory = {kind: dict(named) for kind, named in state.items()}
        out: cuda_graphs.Out = ({}, {})
        self.made += 1

        def replay() -> None:
            self.replays += 1
            for kind, named in memory.items():
                state[kind].update(named)  # a graph knows no other tensors
            for into, made in zip(out, body(own), strict=True):
                into.update(made)
            assert cuda_graphs.settled(state, memory)

        return Graph(replay, own, out, body)


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Again:
    """Steps are replayed from the second time on."""
    made = Again()

    def steps(trainer: Trainer, step: Any, optimiser: Any, keys: Any) -> Replayed:
        return Replayed(step, keys)

    monkeypatch.setattr(cuda_graphs, "capture", lambda: made)
    monkeypatch.setattr(cuda_graphs, "OFTEN", 2)
    monkeypatch.setattr(Trainer, "_steps", steps)
    return made


@pytest.mark.parametrize("stack", [1, 6])
@pytest.mark.parametrize("name", ["fedavg", "apfl", "fedselect", "floco", "pfedfda"])
def test_steps_that_are_replayed_give_the_same_bits(
    name: str, stack: int, request: pytest.FixtureRequest
) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "momentum": 0.9, "stack": stack, "epochs": 3}
    plain = toys.run(name, dict(methods()[name].fast_hp), **how)
    again: Again = request.getfixturevalue("again")
    replayed = toys.run(name, dict(methods()[name].fast_hp), **how)
    assert again.replays > 10
    for key, value in plain.state.items():
        assert torch.equal(value, replayed.state[key]), key


@pytest.mark.parametrize(("own_masks", "records"), [(False, 1), (True, 3)])
def test_clients_share_a_record_unless_their_masks_differ(
    own_masks: bool, records: int, again: Again
) -> None:
    fed = federation(sizes=(40, 40, 40), batch=20, epochs=2, momentum=0.9)
    fed.begin(1, all_clients=True)
    masks = torch.ones(fed.K, fed.D, dtype=torch.bool) if own_masks else None
    fed.train(fed.new_models(), trainable=masks)
    assert again.made == records
    assert again.replays == 3 * (2 * 2 - 1)  # all but each client's first, which makes momentum


def test_a_client_s_first_step_is_never_recorded_since_it_makes_momentum(again: Again) -> None:
    fed = federation(sizes=(40, 40, 40), batch=40, epochs=1, momentum=0.9)
    fed.begin(1, all_clients=True)
    fed.train(fed.new_models())
    assert again.made == 0


class Counting:
    def __init__(self) -> None:
        self.steps = 0

    def step(self, client: Client, batch: Batch) -> None:
        self.steps += 1
        client.update(client.grad(batch))


def test_a_step_that_counts_is_not_replayed(again: Again) -> None:
    fed = federation(sizes=(40, 40))
    start, count, kept = {"params": fed.new_model().expand(fed.N, -1)}, 0, []

    def counts(client: Client, batch: Batch) -> None:
        nonlocal count
        count += 1
        client.update(client.grad(batch))

    def keeps(client: Client, batch: Batch) -> None:
        kept.append(len(batch.y))
        client.update(client.grad(batch))

    method = Counting()
    for step in (counts, keeps, method.step):
        fed.train(start, step=step)
    assert count == len(kept) == method.steps > 4
    assert again.replays == 0
    assert len(again.refused) == 3
