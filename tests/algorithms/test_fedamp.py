"""fedamp: a plain transcription."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
HP = {"alpha": 0.3, "sigma": 2.0, "lam": 0.6}


@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_fedamp_follows_its_plain_transcription(model: str) -> None:
    half: dict[str, Any] = {"participation": 0.5, "rounds": 4}
    run = toys.run("fedamp", HP, model=model, sizes=SIZES, dtype=torch.float64, **half)
    learnable = run.fed.params.learnable
    fed, models = run.fed, [run.fed.new_model() for _ in SIZES]
    uploaded: dict[int, torch.Tensor] = {}
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        mixtures = {}
        for i in fed.active_ids:
            own = uploaded.get(i, fed.new_model())
            mixture, rest = torch.zeros_like(own), 1.0
            for j, other in uploaded.items():
                if j != i:
                    share = (
                        0.3 / 2.0 * math.exp(-((own - other)[learnable] ** 2).sum().item() / 2.0)
                    )
                    mixture, rest = mixture + share * other, rest - share
            mixtures[i] = mixture + rest * own
        for i, mixture in mixtures.items():
            pull = plain.pulled(mixture, 0.6 / 0.3)
            models[i], _ = plain.train(fed, models[i], i, round_, plus=pull)
            uploaded[i] = models[i]
    assert plain.apart(torch.stack(models), run.state["w"]) < 1e-9
    assert run.state["seen"].nonzero().flatten().tolist() == sorted(uploaded)
