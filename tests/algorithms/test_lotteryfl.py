"""lotteryfl: limiting cases, a plain transcription, bytes; masks over single entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import masks
from tests.algorithms import plain, toys

EAGER = {"start": 0.0, "judge": "test", "share": 0.2}


@pytest.mark.parametrize("share", [0.0, 0.1, 0.37, 0.5, 1.0])
def test_quantile_of_some_entries_is_numpys(share: float) -> None:
    values = torch.from_numpy(Streams(0).at("values").random((4, 23)))
    among = values > torch.tensor([[0.0], [0.3], [0.9], [0.5]], dtype=torch.float64)
    ours = masks.masked_quantile(values, among, share)
    for row in range(4):
        expected = np.quantile(values[row][among[row]].numpy(), share)
        assert ours[row].item() == pytest.approx(expected, rel=1e-12)
    assert masks.masked_quantile(values, values > 2, share).isinf().all()


def test_holders_mean_takes_entries_from_those_who_hold_them() -> None:
    x = torch.tensor([[1.0, 2.0, 3.0], [5.0, 6.0, 7.0]])
    held = torch.tensor([[1, 1, 0], [1, 0, 0]], dtype=torch.bool)
    mean = masks.holders_mean(x, held, torch.tensor([0.25, 0.75]), torch.full((3,), -1.0))
    assert mean.tolist() == [4.0, 2.0, -1.0]


def test_freezing_by_magnitude_also_stops_weights_that_are_tiny_at_that_step() -> None:
    how: dict[str, Any] = {"rounds": 1, "sizes": (25, 16), "dtype": torch.float64}
    run = toys.run("lotteryfl", EAGER | {"freeze": "magnitude"}, **how)
    fed = run.fed
    weights = fed.params.mask(fed.params.weights)
    for client in (0, 1):
        w = torch.where(run.state["mask"][client], fed.new_model().double(), 0.0)
        for x, y in plain.batches(fed, client, 1, fed.protocol.epochs):
            g = plain.gradient(fed, w, x, y)
            w = w - fed.protocol.lr * torch.where(weights & (w.abs() < 1e-6), 0.0, g)
        assert fed.trained is not None
        assert plain.apart(w, fed.trained[client]) < 1e-12


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


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_lotteryfl_bills_kept_weights_all_biases_and_the_mask(model: str) -> None:
    before, after = (toys.run("lotteryfl", EAGER, model=model, rounds=rounds) for rounds in (1, 2))
    held = [int((run.state["mask"] & run.fed.params.learnable).sum()) for run in (before, after)]
    assert toys.traffic(after, "down_values")[1] == 4 * held[0]
    assert toys.traffic(after, "up_values")[1] == 4 * held[1]
    assert toys.traffic(after, "up_codes")[1] == 6 * -(
        -sum(s.size for s in after.fed.params.weights) // 8
    )
    assert toys.traffic(after, "down_codes")[1] == 0
