"""scaffold: a plain transcription."""

from __future__ import annotations

import torch

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)


def test_scaffold_follows_its_plain_transcription() -> None:
    hp, half = {"server_lr": 0.8}, {"participation": 0.5, "rounds": 4}
    run = toys.run("scaffold", hp, sizes=SIZES, dtype=torch.float64, **half)
    fed, w = run.fed, run.fed.new_model()
    c, own = torch.zeros_like(w), [torch.zeros_like(w) for _ in SIZES]
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        active, mean, change = fed.active_ids, torch.zeros_like(w), torch.zeros_like(w)
        for p, client in zip(plain.weights(fed, active), active, strict=True):
            correction = c - own[client]
            end, _ = plain.train(fed, w, client, round_, plus=lambda _, by=correction: by)
            steps = len(plain.batches(fed, client, round_, 2))
            new = own[client] - c + (w - end) / (steps * fed.lr)
            change += new - own[client]
            own[client] = new
            mean += p * end
        w, c = w + 0.8 * (mean - w), c + change / len(SIZES)
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(c, run.state["c"]) < 1e-9
    assert plain.apart(torch.stack(own), run.state["c_own"]) < 1e-9
