"""fedrod: a plain transcription."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)


def balanced(gamma: float, counts: Tensor) -> plain.Loss:
    """Cross-entropy of logits with gamma log n added; classes without samples have no share."""

    def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        shares = counts**gamma * plain.logits(p, x).exp()
        return -(shares[torch.arange(len(y)), y] / shares.sum(1)).log().mean()

    return loss


@pytest.mark.parametrize("gamma", [0.5, 0.0])
def test_fedrod_follows_its_plain_transcription(gamma: float) -> None:
    how: dict[str, Any] = {"participation": 0.5, "rounds": 4, "sizes": SIZES}
    run = toys.run("fedrod", {"gamma": gamma}, dtype=torch.float64, **how)
    fed, w = run.fed, run.fed.new_model()
    head = fed.params.head
    heads = [w[head].clone() for _ in SIZES]
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        mean = torch.zeros_like(w)
        for p, client in zip(plain.weights(fed, fed.active_ids), fed.active_ids, strict=True):
            flat, loss = w.clone(), balanced(gamma, fed.data.class_counts[client].double())
            for x, y in plain.batches(fed, client, round_, 2):
                named = plain.named(fed, flat)
                z, generic = plain.features(named, x), plain.logits(named, x)
                leaf = heads[client].requires_grad_()
                personal = F.linear(z, leaf[:-4].view(4, 32), leaf[-4:])
                (g,) = torch.autograd.grad(F.cross_entropy(generic + personal, y), leaf)
                flat = flat - fed.lr * plain.gradient(fed, flat, x, y, loss)
                heads[client] = (leaf - fed.lr * g).detach()
            mean += p * flat
        w = mean
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(heads), run.state["heads"]) < 1e-9
    scored = toys.everybody(run)
    for client, own in enumerate(heads):
        assert plain.apart(w[head] + own, scored[client, head]) < 1e-9
        assert plain.apart(w[~head], scored[client, ~head]) < 1e-9
