"""fedbabu: limiting cases, plain transcription, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.algorithms import plain, toys

HARD = {"momentum": 0.9, "weight_decay": 0.01}


@pytest.mark.parametrize("start", ["common", "own"])
def test_every_head_stays_at_the_one_initial_head_bit_for_bit(start: str) -> None:
    run = toys.run("fedbabu", {"epochs": 0}, start=start, participation=0.5, **HARD)
    head = run.fed.params.head
    assert torch.equal(toys.everybody(run)[:, head], run.fed.new_model()[head].expand(6, -1))


@pytest.mark.parametrize("part", ["model", "body", "head"])
def test_it_follows_its_plain_transcription(part: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "dtype": torch.float64, "sizes": (25, 16), **HARD}
    run = toys.run("fedbabu", {"epochs": 3, "part": part}, **how)
    fed, head = run.fed, run.fed.params.head
    body = fed.params.learnable & ~head
    theta, models = fed.new_model(), [fed.new_model() for _ in range(2)]
    for round_ in (1, 2, 3):
        models = [
            plain.train(fed, torch.where(body, theta, w), c, round_, trainable=~head)[0]
            for c, w in enumerate(models)
        ]
        theta = sum(p * w for p, w in zip(plain.weights(fed, [0, 1]), models, strict=True))
    tuned = {"model": None, "body": ~head, "head": head}[part]
    how = {"epochs": 3, "trainable": tuned, "stream": "finetune"}
    for client, (w, scored) in enumerate(zip(models, toys.everybody(run), strict=True)):
        expected, _ = plain.train(fed, torch.where(body, theta, w), client, 3, **how)
        assert plain.apart(expected, scored) < 1e-9
