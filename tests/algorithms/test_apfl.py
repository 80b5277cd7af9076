"""apfl by the rules of its paper against a plain transcription; FL-bench has its own check."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from tests.algorithms import plain, toys

HARD = {"momentum": 0.9, "weight_decay": 0.01}


def mixed(alpha: Tensor, v: Tensor, w: Tensor) -> Tensor:
    return alpha * v + (1 - alpha) * w


class Client:
    """One client: a model of its own, its mixing weight, its statistics."""

    def __init__(self, fed: Federation, number: int) -> None:
        self.fed, self.number = fed, number
        self.v, self.w = fed.new_model(), fed.new_model()
        self.alpha = torch.tensor(0.5, dtype=torch.float64)

    def stepped(self, model: Tensor, gradient: Tensor, buffer: Tensor) -> None:
        """One SGD step in place, with momentum and weight decay."""
        p = self.fed.protocol
        moves = self.fed.params.learnable
        buffer.mul_(p.momentum).add_(gradient + p.weight_decay * model)
        model[moves] -= p.lr * buffer[moves]

    def round(self, round_: int) -> None:
        """w, then v with the gradient at the mixture, and after the first batch of all alpha."""
        fed, moves = self.fed, self.fed.params.learnable
        of_w, of_v = torch.zeros_like(self.w), torch.zeros_like(self.v)
        for step, (x, y) in enumerate(plain.batches(fed, self.number, round_, fed.protocol.epochs)):
            self.stepped(self.w, plain.gradient(fed, self.w, x, y), of_w)
            m = torch.where(moves, mixed(self.alpha, self.v, self.w), self.v)
            g = plain.gradient(fed, m, x, y)
            self.v = torch.where(moves, self.v, m)  # the mixture's statistics
            self.stepped(self.v, self.alpha * g, of_v)
            if step == 0:
                slope = ((self.v - self.w) * g)[moves].sum()
                self.alpha = (self.alpha - fed.protocol.lr * slope).clamp(0, 1)


def transcribed(run: Run) -> list[Client]:
    """Three rounds of all clients."""
    fed = run.fed
    clients, theta = [Client(fed, number) for number in range(fed.N)], fed.new_model()
    shares = plain.weights(fed, list(range(fed.N)))
    for round_ in (1, 2, 3):
        for client in clients:
            client.w = torch.where(fed.params.learnable, theta, client.w)
            client.round(round_)
        theta = sum(p * c.w for p, c in zip(shares, clients, strict=True))
    for client in clients:
        client.w = torch.where(fed.params.learnable, theta, client.w)
    return clients


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_the_papers_rules_follow_their_plain_transcription(model: str) -> None:
    run = toys.run("apfl", model=model, sizes=(25, 16, 9), dtype=torch.float64, rounds=3, **HARD)
    for client, scored in zip(transcribed(run), toys.everybody(run), strict=True):
        assert plain.apart(mixed(client.alpha, client.v, client.w), scored) < 1e-9
        assert plain.apart(client.alpha, run.state["alpha"][client.number]) < 1e-9


def test_flbench_skips_batches_of_one_when_it_counts_the_first_epoch() -> None:
    how: dict[str, Any] = {"sizes": (25, 17, 1), "skip_single": True, "epochs": 1, "rounds": 1}
    run = toys.run("apfl", {"mode": "flbench"}, **how)
    full = toys.run("apfl", {"mode": "flbench", "alpha_epochs": 9}, **how)
    assert torch.equal(run.state["alpha"], full.state["alpha"])
    assert float(run.state["alpha"][2]) == 0.5
