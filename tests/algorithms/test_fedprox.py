"""fedprox: a plain transcription, and its limiting case."""

from __future__ import annotations

from typing import Any

import torch

from tests.algorithms import plain, toys

SIZES = (25, 16, 9)


def test_fedprox_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": SIZES, "buffers": "global"}
    how |= {"momentum": 0.9, "weight_decay": 0.01, "dtype": torch.float64}
    run = toys.run("fedprox", {"mu": 0.7}, **how)
    fed, w = run.fed, run.fed.new_model()
    for round_ in (1, 2, 3):
        pull = plain.pulled(w, 0.7)
        ends = [plain.train(fed, w, client, round_, plus=pull)[0] for client in range(3)]
        w = sum(p * end for p, end in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
    assert plain.apart(w, run.state["theta"]) < 1e-9


def test_without_a_pull_it_is_fedavg() -> None:
    prox, avg = toys.run("fedprox", {"mu": 0.0}), toys.run("fedavg")
    assert plain.apart(prox.state["theta"], avg.state["theta"]) < 1e-6
