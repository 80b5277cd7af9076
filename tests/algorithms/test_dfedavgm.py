"""dfedavgm: limiting cases, a plain transcription, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.run import Run
from tests.algorithms import peers, plain, toys

PAPER = {"graph": "regular", "order": "train-gossip", "degree": 2}
MOMENTUM: dict[str, Any] = {"momentum": 0.9, "weight_decay": 0.01, "dtype": torch.float64}


def heavy_ball(run: Run, start: Tensor, client: int, round_: int) -> Tensor:
    """The paper's local steps: y <- y - lr g + theta (y - y_before)."""
    p = run.fed.protocol
    before, now = start.clone(), start.clone()
    for x, y in plain.batches(run.fed, client, round_, p.epochs):
        g = plain.gradient(run.fed, now, x, y) + p.weight_decay * now
        before, now = now, now - p.lr * g + p.momentum * (now - before)
    return now


@pytest.mark.parametrize(
    ("order", "graph"),
    [("train-gossip", "regular"), ("gossip-train", "pull"), ("train-gossip", "pull")],
)
def test_dfedavgm_follows_its_plain_transcription(order: str, graph: Any) -> None:
    run = toys.run(
        "dfedavgm", {"order": order, "graph": graph, "degree": 2}, sizes=peers.SIZES, **MOMENTUM
    )
    fed = run.fed
    w = [fed.new_model()] * fed.N
    for round_ in (1, 2, 3):
        hears = peers.topology_at(fed, round_).graph(graph, 2)
        for step in order.split("-"):
            if step == "train":
                w = [heavy_ball(run, w[client], client, round_) for client in range(fed.N)]
            else:
                w = [
                    torch.stack([w[j] for j in peers.senders(hears, client)]).mean(0)
                    for client in range(fed.N)
                ]
    assert plain.apart(torch.stack(w), run.state["w"]) < 1e-9


def test_dfedavgm_quantises_to_the_levels_that_its_bits_allow() -> None:
    run = toys.run("dfedavgm", PAPER | {"bits": 3}, rounds=1, dtype=torch.float64)
    known, trained = run.fed.new_model().expand(run.fed.N, -1), run.fed.trained
    assert trained is not None
    change = run.method.quantise(run.fed, trained, known, 3)
    largest = (trained - known).abs().amax(1, keepdim=True)
    levels = change[largest.flatten() > 0] / largest[largest > 0][:, None] * 3
    assert torch.allclose(levels, levels.round(), atol=1e-9)
    assert levels.abs().max().item() == pytest.approx(3)
    assert bool(((change - (trained - known)).abs() <= largest / 6 + 1e-12).all())


def test_dfedavgm_bills_a_model_per_neighbour() -> None:
    run = toys.run("dfedavgm", {"degree": 2})
    size, clients = run.fed.params.parameters, run.fed.N
    assert (
        toys.traffic(run, "up_values")
        == toys.traffic(run, "down_values")
        == [4.0 * size * 2 * clients] * 3
    )
    assert sum(toys.traffic(run, "up_codes")) == 0


def test_dfedavgm_bills_quantised_changes_by_their_width() -> None:
    run = toys.run("dfedavgm", PAPER | {"bits": 5})
    words = -(-run.fed.params.parameters * 5 // 32) + 1  # and the size of the largest change
    assert toys.traffic(run, "up_values") == [4.0 * words * 2 * run.fed.N] * 3


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dfedavgm_sends_statistics_where_the_protocol_averages_them(buffers: str) -> None:
    run = toys.run(
        "dfedavgm",
        PAPER | {"graph": "complete"},
        model="tiny-bn",
        buffers=buffers,
        sizes=peers.SIZES,
    )
    spread = (run.state["w"] - run.state["w"].mean(0)).abs().amax(0)
    assert spread[run.fed.params.learnable].max() < 1e-6
    assert bool((spread[run.fed.params.stats] > 1e-4).any()) == (buffers == "local")
