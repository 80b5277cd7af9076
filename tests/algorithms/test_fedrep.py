"""fedrep: limiting cases, plain transcription, bytes; and training in phases, which others
share.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys

HARD = {"momentum": 0.9, "weight_decay": 0.01}


def transcribed(
    fed: Federation, clients: list[list[int]], head_epochs: int, body_epochs: int
) -> Tensor:
    """FedRep, client after client: everybody's model at the end  [N, D]."""
    head, body = fed.params.head, fed.params.learnable & ~fed.params.head
    models = [fed.new_model() for _ in range(fed.N)]
    theta = fed.new_model()
    for round_, cohort in enumerate(clients, start=1):
        bodies = []
        for c in cohort:
            w = torch.where(body, theta, models[c])
            w, _ = plain.train(fed, w, c, round_, epochs=head_epochs, trainable=head)
            how: dict[str, Any] = {"first": head_epochs, "trainable": ~head}
            models[c], _ = plain.train(fed, w, c, round_, epochs=body_epochs, **how)
            bodies.append(models[c])
        theta = sum(p * w for p, w in zip(plain.weights(fed, cohort), bodies, strict=True))
    return torch.stack([torch.where(body, theta, w) for w in models])


@pytest.mark.parametrize(
    ("hp", "epochs"), [({}, (2, 1)), ({"head_epochs": 1, "body_epochs": 3}, (1, 3))]
)
def test_it_follows_its_plain_transcription(hp: dict[str, int], epochs: tuple[int, int]) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": (25, 16, 9), "epochs": 3, **HARD}
    run = toys.run("fedrep", hp, dtype=torch.float64, **how)
    assert plain.apart(transcribed(run.fed, [[0, 1, 2]] * 3, *epochs), toys.everybody(run)) < 1e-9


def test_the_final_head_epochs_change_what_is_scored_and_nothing_else() -> None:
    one, other = (
        toys.run("fedrep", {"final_epochs": n}, dtype=torch.float64, sizes=(25, 16)) for n in (3, 0)
    )
    assert toys.gap(one.state, other.state) == 0
    how: dict[str, Any] = {"trainable": one.fed.params.head, "stream": "finetune"}
    for client, tuned in enumerate(toys.everybody(one)):
        expected, _ = plain.train(
            one.fed, toys.everybody(other)[client], client, 3, epochs=3, **how
        )
        assert plain.apart(expected, tuned) < 1e-9
