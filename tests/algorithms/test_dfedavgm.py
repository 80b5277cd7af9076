"""dfedavgm as in its paper: a plain transcription, quantisation."""

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


@pytest.mark.parametrize("graph", ["regular", "pull"])
def test_dfedavgm_follows_its_plain_transcription(graph: Any) -> None:
    run = toys.run("dfedavgm", PAPER | {"graph": graph}, sizes=peers.SIZES, **MOMENTUM)
    fed = run.fed
    w = [fed.new_model()] * fed.N
    for round_ in (1, 2, 3):
        hears = peers.topology_at(fed, round_).graph(graph, 2)
        w = [heavy_ball(run, w[client], client, round_) for client in range(fed.N)]
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
