"""ditto: limiting cases, a plain transcription, bytes."""

from __future__ import annotations

from typing import Any

import torch

from tests.algorithms import plain, toys


def test_ditto_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": (25, 16, 9), "buffers": "global"}
    run = toys.run("ditto", {"lam": 0.7, "epochs": 3, "lr": 0.02}, dtype=torch.float64, **how)
    fed = run.fed
    w = fed.new_model().double()
    v = [w.clone() for _ in range(3)]
    for round_ in (1, 2, 3):
        for client in range(3):
            for x, y in plain.batches(fed, client, round_, 3):
                g = plain.gradient(fed, v[client], x, y) + 0.7 * (v[client] - w)
                v[client] -= torch.where(fed.params.learnable, 0.02 * g, 0.0)
        ends = [plain.train(fed, w, client, round_)[0] for client in range(3)]
        w = sum(p * end for p, end in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(v), run.state["v"]) < 1e-9
