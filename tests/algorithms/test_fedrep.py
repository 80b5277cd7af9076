"""fedrep: limiting cases, plain transcription, bytes; and training in phases, which others
share.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.fedavg import FedAvg
from tests.algorithms import plain, toys

HARD = {"momentum": 0.9, "weight_decay": 0.01}


def test_without_head_epochs_it_trains_as_fedbabu() -> None:
    one, other = (
        toys.run("fedrep", {"head_epochs": 0, "body_epochs": 2}, **HARD),
        toys.run("fedbabu", **HARD),
    )
    assert torch.equal(one.state["theta"], other.state["theta"])


def test_if_all_epochs_are_the_bodys_heads_stay_as_they_started() -> None:
    run = toys.run("fedrep", {"body_epochs": 2}, start="own", **HARD)
    heads = run.fed.new_models()[:, run.fed.params.head]
    assert torch.equal(toys.everybody(run)[:, run.fed.params.head], heads)
    assert not torch.equal(heads[0], heads[1])


class LateFedAvg(FedAvg):
    """FedAvg on the second epoch's batches."""

    def round(self, state: State, fed: Federation) -> State:
        return {
            **state,
            "theta": fed.mean(fed.train(state["theta"].expand(fed.K, -1), epochs=1, first_epoch=1)),
        }


def test_without_a_head_it_is_fedavg_on_the_last_epochs() -> None:
    one = toys.run("fedrep", model=toys.headless())
    assert torch.equal(
        one.state["theta"], toys.run(LateFedAvg(), model=toys.headless()).state["theta"]
    )
    whole = toys.run("fedrep", {"body_epochs": 2}, model=toys.headless("tiny-bn"))
    assert torch.equal(
        toys.everybody(whole), toys.everybody(toys.run("fedavg", model=toys.headless("tiny-bn")))
    )


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
            models[c], _ = plain.train(
                fed, w, c, round_, epochs=body_epochs, first=head_epochs, trainable=~head
            )
            bodies.append(models[c])
        theta = sum(p * w for p, w in zip(plain.weights(fed, cohort), bodies, strict=True))
    return torch.stack([torch.where(body, theta, w) for w in models])


@pytest.mark.parametrize(
    ("hp", "epochs"), [({}, (2, 1)), ({"head_epochs": 1, "body_epochs": 3}, (1, 3))]
)
def test_it_follows_its_plain_transcription(hp: dict[str, int], epochs: tuple[int, int]) -> None:
    run = toys.run(
        "fedrep",
        hp,
        model="tiny-bn",
        sizes=(25, 16, 9),
        dtype=torch.float64,
        epochs=3,
        rounds=3,
        **HARD,
    )
    assert plain.apart(transcribed(run.fed, [[0, 1, 2]] * 3, *epochs), toys.everybody(run)) < 1e-9


def test_the_final_head_epochs_change_what_is_scored_and_nothing_else() -> None:
    one, other = (
        toys.run("fedrep", {"final_epochs": n}, dtype=torch.float64, sizes=(25, 16)) for n in (3, 0)
    )
    assert toys.gap(one.state, other.state) == 0
    for client, (tuned, before) in enumerate(
        zip(toys.everybody(one), toys.everybody(other), strict=True)
    ):
        expected, _ = plain.train(
            one.fed, before, client, 3, epochs=3, trainable=one.fed.params.head, stream="finetune"
        )
        assert plain.apart(expected, tuned) < 1e-9


def test_newcomers_may_get_the_average_of_the_heads() -> None:
    one, other = (
        toys.run("fedrep", {"newcomer": who}, participation=0.5, rounds=1, sizes=toys.EQUAL)
        for who in ("global", "initial")
    )
    absent, head = ~one.state["seen"], one.fed.params.head
    assert torch.equal(
        toys.everybody(other)[absent][:, head], one.fed.new_model()[head].expand(2, -1)
    )
    assert one.fed.trained is not None
    assert torch.allclose(toys.everybody(one)[absent][:, head], one.fed.trained[:, head].mean(0))
