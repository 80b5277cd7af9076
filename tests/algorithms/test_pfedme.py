"""pfedme: a plain transcription."""

from __future__ import annotations

from typing import Any

import torch

from tests.algorithms import plain, toys

HP = {"lam": 2.0, "inner_steps": 3, "inner_lr": 0.05, "beta": 0.5}


def test_pfedme_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": (25, 16, 9), "buffers": "global"}
    run = toys.run("pfedme", HP, dtype=torch.float64, **how)
    fed, w = run.fed, run.fed.new_model()
    moves = fed.params.learnable
    for round_ in (1, 2, 3):
        personal, ends = [], []
        for client in range(3):
            t, local = w.clone(), w.clone()
            for x, y in plain.batches(fed, client, round_, 2):
                for _ in range(3):
                    g = plain.gradient(fed, t, x, y) + 2.0 * (t - local)
                    t[moves] -= 0.05 * g[moves]
                local[moves] -= fed.lr * 2.0 * (local - t)[moves]
            personal.append(t)
            ends.append(torch.where(moves, local, t))  # statistics are those that t has seen
        mean = sum(p * end for p, end in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
        w = torch.where(moves, 0.5 * w + 0.5 * mean, mean)
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(personal), run.state["personal"]) < 1e-9
