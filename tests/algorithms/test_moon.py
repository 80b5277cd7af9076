"""moon: a plain transcription."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
MU, TAU = 2.0, 0.4


def contrastive(received: dict[str, Tensor], last: dict[str, Tensor]) -> plain.Loss:
    """Cross-entropy and the contrastive loss, as a softmax over two similarities."""

    def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        z = plain.features(p, x)
        others = [plain.features(model, x, train=False) for model in (received, last)]
        near, far = (F.cosine_similarity(z, other).div(TAU).exp() for other in others)
        logits = F.linear(z, p["fc2.weight"], p["fc2.bias"])
        return F.cross_entropy(logits, y) - MU * (near / (near + far)).log().mean()

    return loss


def test_moon_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "buffers": "global", "participation": 0.5}
    hp = {"mu": MU, "tau": TAU}
    run = toys.run("moon", hp, sizes=SIZES, dtype=torch.float64, rounds=4, **how)
    fed, w = run.fed, run.fed.new_model()
    last = [w.clone() for _ in SIZES]
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        mean = torch.zeros_like(w)
        for p, client in zip(plain.weights(fed, fed.active_ids), fed.active_ids, strict=True):
            loss = contrastive(plain.named(fed, w), plain.named(fed, last[client]))
            last[client], _ = plain.train(fed, w, client, round_, loss=loss)
            mean += p * last[client]
        w = mean
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(last), run.state["last"]) < 1e-9
