"""fedfomo against a plain transcription."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.bench.check.toy_clients import with_validation
from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40, 12, 20)


@pytest.mark.parametrize("validated", [True, False])
def test_fedfomo_follows_its_plain_transcription(validated: bool) -> None:
    held = with_validation(SIZES) if validated else toys.data(SIZES)
    how: dict[str, Any] = {"participation": 0.75, "rounds": 6, "clients_data": held, "lr": 0.02}
    run = toys.run("fedfomo", {"models": 3}, dtype=torch.float64, **how)
    fed, models = run.fed, [run.fed.new_model() for _ in SIZES]
    uploaded: dict[int, Tensor] = {}
    affinity = [[0.0] * len(SIZES) for _ in SIZES]
    mixtures = 0

    def loss(client: int, flat: Tensor) -> float:
        index = (held.val if validated else held.train)[client]
        p = plain.named(fed, flat)
        return float(plain.still(p, fed.data.inputs(index), fed.data.labels[index]))

    for round_ in range(1, 7):
        fed.begin(round_)
        starts = {}
        for i in fed.active_ids:
            draws = fed.rng("order", i).random(len(SIZES))
            keys = [(affinity[i][n], draws[n]) for n in range(len(SIZES))]
            others = sorted((n for n in uploaded if n != i), key=keys.__getitem__, reverse=True)
            own, gains = models[i], {}
            for n in others[:3]:
                distance = ((uploaded[n] - own) ** 2).sum().sqrt() + 1e-5
                gains[n] = float((loss(i, own) - loss(i, uploaded[n])) / distance)
                affinity[i][n] += gains[n]
            helpful = {n: gain for n, gain in gains.items() if gain > 0}
            mixtures += len(helpful) > 1
            total = sum(helpful.values())
            starts[i] = own.clone()
            for n, gain in helpful.items():
                starts[i] += gain / total * (uploaded[n] - own)
        for i, start in starts.items():
            models[i], _ = plain.train(fed, start, i, round_)
            uploaded[i] = models[i]
    assert mixtures
    assert plain.apart(torch.stack(models), run.state["w"]) < 1e-9
    expected = torch.tensor(affinity, dtype=torch.float64)
    assert plain.apart(expected, run.state["affinity"]) < 1e-9
