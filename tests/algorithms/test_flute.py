"""FLUTE by the rules of its paper against a plain transcription; FL-bench has its own check."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.batches import Schedule, plan_batches, steps_per_epoch
from repfl.algorithms.flute import misalignment
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)


def test_a_head_of_zeros_and_a_client_without_classes_have_a_finite_slope() -> None:
    heads = torch.zeros(2, 3, 5, dtype=torch.float64, requires_grad=True)
    value = misalignment(heads, torch.tensor([[1.0, 1, 0], [0, 0, 0]], dtype=torch.float64))
    (grad,) = torch.autograd.grad(value.sum(), heads)
    assert torch.isfinite(grad).all()
    assert torch.isfinite(value).all()


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("skip_single", [False, True])
def test_steps_per_epoch_are_those_of_the_batch_plan(batch: int, skip_single: bool) -> None:
    fed = toys.run("local", rounds=1, epochs=0).fed
    schedule = Schedule("batches", 1, 1, 0, batch, skip_single)
    planned = [
        len(plan_batches(fed.data, fed.streams, client, schedule).index) for client in range(fed.N)
    ]
    assert steps_per_epoch(fed.n_train, batch, skip_single).tolist() == planned


def alignment(weight: Tensor, held: list[int], classes: int) -> Tensor:
    u = torch.zeros(classes, 1, dtype=weight.dtype)
    u[held] = 1
    gram, eye = weight @ weight.T, torch.eye(classes, dtype=weight.dtype)
    frame = eye - torch.ones_like(eye) / classes
    return torch.norm(gram / torch.norm(gram) - frame * (u @ u.T) / (classes - 1) ** 0.5)


def local(
    fed: Federation, flat: Tensor, client: int, round_: int, held: list[int], hp: dict[str, Any]
) -> Tensor:
    """A client's epochs."""

    def loss(params: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        features, weight = plain.features(params, x), params["fc2.weight"]
        total = F.cross_entropy(F.linear(features, weight, params["fc2.bias"]), y)
        total = total + hp["align"] * alignment(weight, held, fed.classes)
        total = total + hp["head_decay"] * torch.norm(weight) ** 2
        return total + hp["feature_decay"] * torch.norm(features) ** 2 / len(features)

    return plain.train(fed, flat, client, round_, loss=loss)[0]


def transcription(fed: Federation, hp: dict[str, Any], rounds: int) -> tuple[Tensor, Tensor]:
    """FLUTE client by client, everybody in every round: body and heads."""
    everyone, head = range(fed.N), fed.params.head
    held = [sorted(set(fed.data.labels[fed.data.train[i]].tolist())) for i in everyone]
    share, theta = plain.weights(fed, list(everyone)), fed.new_model().double()
    own = [theta.clone() for _ in everyone]
    for t in range(1, rounds + 1):
        ends = [local(fed, torch.where(head, own[i], theta), i, t, held[i], hp) for i in everyone]
        theta = sum(p * end for p, end in zip(share, ends, strict=True))
        weights = [plain.named(fed, end)["fc2.weight"].clone().requires_grad_() for end in ends]
        total = sum(alignment(w, u, fed.classes) for w, u in zip(weights, held, strict=True))
        grads = torch.autograd.grad(total, weights)
        for i, (end, grad) in enumerate(zip(ends, grads, strict=True)):
            own[i] = end.clone()
            plain.named(fed, own[i])["fc2.weight"] -= hp["server_lr"] * grad
    return theta, torch.stack(own)


HP = {"align": 0.25, "head_decay": 0.0025, "feature_decay": 0.0005, "server_lr": 0.5}
STRONG = {"align": 0.5, "head_decay": 0.05, "feature_decay": 0.01}
LONG = {"momentum": 0.7, "weight_decay": 1e-2, "epochs": 3}


@pytest.mark.parametrize(("hp", "protocol"), [({}, {}), (STRONG, LONG)], ids=str)
def test_flute_follows_its_plain_transcription(
    hp: dict[str, Any], protocol: dict[str, Any]
) -> None:
    chosen = HP | hp
    run = toys.run("flute", chosen, sizes=SIZES, dtype=torch.float64, stack=4, **protocol)
    theta, own = transcription(run.fed, chosen, 3)
    head = run.fed.params.head
    assert plain.apart(theta[~head], run.state["theta"][~head]) < 1e-9
    assert plain.apart(own[:, head], run.state["own"]) < 1e-9
