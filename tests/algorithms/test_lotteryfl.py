"""lotteryfl with its defaults against a plain transcription."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys

EAGER = {"start": 0.0, "judge": "test", "share": 0.2}


def test_without_validation_samples_training_samples_judge() -> None:
    run = toys.run("lotteryfl", {"start": 0.0}, epochs=3, lr=0.1)
    assert run.state["remaining"][2] == 1
    assert bool((run.state["remaining"][[0, 3]] < 1).all())


def pruned(fed: Federation, w: Tensor, mask: Tensor, share: float) -> Tensor:
    mask = mask.clone()
    for s in fed.params.weights:
        size = w[s.place].abs().numpy()
        mask[s.place] &= torch.from_numpy(size >= np.percentile(size[size > 0], 100 * share))
    return mask


def test_lotteryfl_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"sizes": (25, 16, 9), "dtype": torch.float64, "rounds": 4}
    run = toys.run("lotteryfl", EAGER | {"start": 0.2, "target": 0.75}, **how)
    fed = run.fed
    initial = theta = fed.new_model().double()
    mask, left = [torch.ones(fed.D, dtype=torch.bool) for _ in range(3)], [1.0] * 3
    for round_ in (1, 2, 3, 4):
        summed, counted = torch.zeros_like(theta), torch.zeros_like(theta)
        for client, p in enumerate(plain.weights(fed, [0, 1, 2])):
            w, test = theta * mask[client], fed.data.test[client]
            said = plain.logits(plain.named(fed, w), fed.data.inputs(test), train=False).argmax(1)
            right = said == fed.data.labels[test]
            if right.double().mean() > 0.2 and left[client] > 0.75:
                mask[client] = pruned(fed, w, mask[client], 0.2)
                left[client] *= 0.8
                w = initial * mask[client]
            w, _ = plain.train(fed, w, client, round_, trainable=mask[client])
            summed += p * w * mask[client]
            counted += p * mask[client]
        theta = torch.where(counted > 0, summed / counted.clamp(min=1e-300), theta)
    assert torch.equal(torch.stack(mask), run.state["mask"])
    assert sorted(set(left)) != [1.0]
    assert plain.apart(theta, run.state["theta"]) < 1e-9
