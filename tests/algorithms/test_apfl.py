"""apfl: limiting cases, plain transcriptions of both sets of rules, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.evaluate import Mixture
from tests.algorithms import plain, toys

HARD = {"momentum": 0.9, "weight_decay": 0.01}


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_alpha_one_is_local_training_on_the_same_batches(model: str) -> None:
    how: dict[str, Any] = {"model": model, "participation": 0.5, **HARD}
    one, other = (
        toys.run("apfl", {"alpha": 1.0, "alpha_epochs": 0}, **how),
        toys.run("local", **how),
    )
    assert torch.equal(toys.everybody(one), toys.everybody(other))


def mixed(alpha: Tensor, v: Tensor, w: Tensor) -> Tensor:
    return alpha * v + (1 - alpha) * w


class Client:
    """One client of the transcriptions: a model of its own, its mixing weight, its statistics."""

    def __init__(self, fed: Federation, number: int) -> None:
        self.fed, self.number = fed, number
        self.v, self.w = fed.new_model(), fed.new_model()
        self.alpha = torch.tensor(0.5, dtype=torch.float64)

    def buffers(self) -> tuple[Tensor, Tensor]:
        """Momentum of w and of v, which is new in every round."""
        return torch.zeros_like(self.w), torch.zeros_like(self.v)

    def stepped(self, model: Tensor, gradient: Tensor, buffer: Tensor) -> None:
        """One SGD step in place, with momentum and weight decay."""
        p = self.fed.protocol
        moves = self.fed.params.learnable
        buffer.mul_(p.momentum).add_(gradient + p.weight_decay * model)
        model[moves] -= p.lr * buffer[moves]

    def paper_round(self, round_: int) -> None:
        """w, then v with the gradient at the mixture, and after the first batch of all alpha."""
        fed, moves = self.fed, self.fed.params.learnable
        of_w, of_v = self.buffers()
        for step, (x, y) in enumerate(plain.batches(fed, self.number, round_, fed.protocol.epochs)):
            self.stepped(self.w, plain.gradient(fed, self.w, x, y), of_w)
            m = torch.where(moves, mixed(self.alpha, self.v, self.w), self.v)
            g = plain.gradient(fed, m, x, y)
            self.v = torch.where(moves, self.v, m)  # the mixture's statistics
            self.stepped(self.v, self.alpha * g, of_v)
            if step == 0:
                slope = ((self.v - self.w) * g)[moves].sum()
                self.alpha = (self.alpha - fed.protocol.lr * slope).clamp(0, 1)

    def flbench_round(self, round_: int) -> None:
        """One gradient moves w twice; logits are mixed; alpha moves in the first epoch and is
        pulled to zero.
        """
        fed = self.fed
        of_w, of_v = self.buffers()
        first = len(plain.batches(fed, self.number, round_, 1))
        for step, (x, y) in enumerate(plain.batches(fed, self.number, round_, fed.protocol.epochs)):
            g_w = plain.gradient(fed, self.w, x, y)
            self.stepped(self.w, g_w, of_w)
            alpha, w = self.alpha, plain.named(fed, self.w.clone())

            def loss(
                p: dict[str, Tensor], x: Tensor, y: Tensor, alpha: Tensor = alpha, w: Any = w
            ) -> Tensor:
                return F.cross_entropy(mixed(alpha, plain.logits(p, x), plain.logits(w, x)), y)

            g_v = plain.gradient(fed, self.v, x, y, loss)
            self.stepped(self.w, g_w, of_w)
            self.stepped(self.v, g_v, of_v)
            if step < first:
                slope = ((self.v - self.w) * mixed(alpha, g_v, g_w)).sum() + 0.02 * alpha
                self.alpha = (alpha - fed.protocol.lr * slope).clamp(0, 1)


def transcribed(run: Run, mode: str) -> list[Client]:
    """Three rounds of all clients."""
    fed = run.fed
    clients, theta = [Client(fed, number) for number in range(fed.N)], fed.new_model()
    shares = plain.weights(fed, list(range(fed.N)))
    for round_ in (1, 2, 3):
        for client in clients:
            client.w = torch.where(fed.params.learnable, theta, client.w)
            client.paper_round(round_) if mode == "paper" else client.flbench_round(round_)
        theta = sum(p * c.w for p, c in zip(shares, clients, strict=True))
    for client in clients:
        client.w = torch.where(fed.params.learnable, theta, client.w)
    return clients


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_the_papers_rules_follow_their_plain_transcription(model: str) -> None:
    run = toys.run("apfl", model=model, sizes=(25, 16, 9), dtype=torch.float64, rounds=3, **HARD)
    for client, scored in zip(transcribed(run, "paper"), toys.everybody(run), strict=True):
        assert plain.apart(mixed(client.alpha, client.v, client.w), scored) < 1e-9
        assert plain.apart(client.alpha, run.state["alpha"][client.number]) < 1e-9


def test_flbenchs_rules_follow_their_plain_transcription() -> None:
    how: dict[str, Any] = {"sizes": (25, 16, 9), "dtype": torch.float64, **HARD}
    run = toys.run("apfl", {"mode": "flbench"}, **how)
    with run.fed.as_active(range(run.fed.N)):
        scored = run.scored_models()
    assert isinstance(scored, Mixture)
    (alpha, v), (rest, w) = scored.parts
    for i, client in enumerate(transcribed(run, "flbench")):
        assert plain.apart(client.alpha, alpha[i]) < 1e-9
        assert plain.apart(client.v, v[i]) < 1e-9
        assert plain.apart(client.w, w[i]) < 1e-9
    assert torch.equal(alpha + rest, torch.ones_like(alpha))


def test_flbench_skips_batches_of_one_when_it_counts_the_first_epoch() -> None:
    how: dict[str, Any] = {"sizes": (25, 17, 1), "skip_single": True, "epochs": 1, "rounds": 1}
    run = toys.run("apfl", {"mode": "flbench"}, **how)
    full = toys.run("apfl", {"mode": "flbench", "alpha_epochs": 9}, **how)
    assert torch.equal(run.state["alpha"], full.state["alpha"])
    assert float(run.state["alpha"][2]) == 0.5
