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
    hp = {"order": order, "graph": graph, "degree": 2}
    run = toys.run("dfedavgm", hp, sizes=peers.SIZES, **MOMENTUM)
    fed = run.fed
    w = [fed.new_model()] * fed.N
    for round_ in (1, 2, 3):
        hears = peers.topology_at(fed, round_).graph(graph, 2)
        for step in order.split("-"):
            if step == "train":
                w = [heavy_ball(run, w[client], client, round_) for client in range(fed.N)]
            else:
                heard = [[w[j] for j in peers.senders(hears, client)] for client in range(fed.N)]
                w = [torch.stack(models).mean(0) for models in heard]
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


@pytest.mark.parametrize("bits", [32, 5])
def test_dfedavgm_bills_a_model_or_a_quantised_change_per_neighbour(bits: int) -> None:
    run = toys.run("dfedavgm", PAPER | ({"bits": bits} if bits < 32 else {}))
    size, sends = run.fed.params.parameters, 2 * run.fed.N
    words = size if bits == 32 else -(-size * bits // 32) + 1  # and the size of the largest change
    for way in ("up", "down"):
        assert toys.traffic(run, f"{way}_values") == [4 * words * sends] * 3
        assert toys.traffic(run, f"{way}_codes") == [0] * 3


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dfedavgm_sends_statistics_where_the_protocol_averages_them(buffers: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": buffers, "sizes": peers.SIZES}
    run = toys.run("dfedavgm", PAPER | {"graph": "complete"}, **how)
    spread = (run.state["w"] - run.state["w"].mean(0)).abs().amax(0)
    assert spread[run.fed.params.learnable].max() < 1e-6
    assert bool((spread[run.fed.params.stats] > 1e-4).any()) == (buffers == "local")
