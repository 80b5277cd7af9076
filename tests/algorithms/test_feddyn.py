"""feddyn: a plain transcription in the paper's notation."""

from __future__ import annotations

from typing import Any

import torch

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
ALPHA = 0.3


def test_feddyn_follows_its_plain_transcription() -> None:
    """The paper's g_i are -alpha times our corrections, its h is -alpha times ours."""
    how: dict[str, Any] = {"participation": 0.5, "rounds": 4, "weighting": "uniform"}
    run = toys.run("feddyn", {"alpha": ALPHA}, sizes=SIZES, dtype=torch.float64, **how)
    fed, w = run.fed, run.fed.new_model()
    g, h = [torch.zeros_like(w) for _ in SIZES], torch.zeros_like(w)
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        ends = {}
        for client in fed.active_ids:
            pull, linear = plain.pulled(w, ALPHA), g[client]
            ends[client], _ = plain.train(
                fed, w, client, round_, plus=lambda flat, p=pull, g=linear: p(flat) - g
            )
            g[client] = g[client] - ALPHA * (ends[client] - w)
        h = h - ALPHA / len(SIZES) * sum(end - w for end in ends.values())
        w = sum(ends.values()) / len(ends) - h / ALPHA
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(g), -ALPHA * run.state["h_own"]) < 1e-9
    assert plain.apart(h, -ALPHA * run.state["h"]) < 1e-9


def test_running_statistics_are_averaged_without_a_correction() -> None:
    run = toys.run("feddyn", {"alpha": ALPHA}, model="tiny-bn", buffers="global")
    assert not run.state["h"][run.fed.params.stats].any()
    assert run.state["h"][run.fed.params.learnable].any()
