"""FLUTE: limiting cases, a plain transcription, bytes."""

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
    """A client's epochs: the head alone (if at all), then everything, with one momentum buffer
    throughout.
    """
    flat, buffer, p = flat.clone(), torch.zeros_like(flat), fed.protocol
    for epoch in range(p.epochs):
        joint = hp["body_epochs"] is None or epoch >= p.epochs - hp["body_epochs"]
        everything = joint and not hp["detach"]
        moves = fed.params.learnable if everything else fed.params.head

        def loss(params: dict[str, Tensor], x: Tensor, y: Tensor, joint: bool = joint) -> Tensor:
            features, weight = plain.features(params, x), params["fc2.weight"]
            total = F.cross_entropy(F.linear(features, weight, params["fc2.bias"]), y)
            total = total + hp["align"] * alignment(weight, held, fed.classes)
            total = total + hp["head_decay"] * torch.norm(weight) ** 2
            size = 1 if hp["mode"] == "flbench" else len(features)
            decay = hp["feature_decay"] * torch.norm(features) ** 2 / size
            return total + decay if joint else total

        for x, y in plain.batches(fed, client, round_, 1, first=epoch):
            grad = plain.gradient(fed, flat, x, y, loss) + p.weight_decay * flat
            buffer[moves] = p.momentum * buffer[moves] + grad[moves]
            flat[moves] -= p.lr * buffer[moves]
    return flat


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
        total = total / (fed.N if hp["mode"] == "flbench" else 1)
        grads = torch.autograd.grad(total, weights)
        for i, (end, grad) in enumerate(zip(ends, grads, strict=True)):
            own[i] = end.clone()
            plain.named(fed, own[i])["fc2.weight"] -= hp["server_lr"] * grad
    return theta, torch.stack(own)


FLBENCH = {"mode": "flbench", "body_epochs": 1}
HP = {"mode": "paper", "body_epochs": None, "detach": False, "align": 0.25}
HP |= {"head_decay": 0.0025, "feature_decay": 0.0005, "server_lr": 0.5}
STRONG = {"align": 0.5, "head_decay": 0.05, "feature_decay": 0.01}
LONG = {"momentum": 0.7, "weight_decay": 1e-2, "epochs": 3}


@pytest.mark.parametrize(
    ("hp", "protocol"),
    [
        ({}, {}),
        (STRONG, LONG),
        (FLBENCH, {}),
        (FLBENCH | STRONG | {"body_epochs": 2}, LONG),
        (FLBENCH | {"detach": True}, {"momentum": 0.7}),
    ],
    ids=str,
)
def test_flute_follows_its_plain_transcription(
    hp: dict[str, Any], protocol: dict[str, Any]
) -> None:
    chosen = HP | hp
    run = toys.run("flute", chosen, sizes=SIZES, dtype=torch.float64, stack=4, **protocol)
    theta, own = transcription(run.fed, chosen, 3)
    head = run.fed.params.head
    assert plain.apart(theta[~head], run.state["theta"][~head]) < 1e-9
    assert plain.apart(own[:, head], run.state["own"]) < 1e-9


def test_flute_bills_body_head_weight_and_a_bit_per_class() -> None:
    run = toys.run("flute", sizes=toys.EQUAL)
    params = run.fed.params
    floats = params.parameters - int(params.head.sum()) + 4 * 32
    for way, codes in (("up", 4), ("down", 0)):  # classes are a bit each, in a byte
        assert toys.traffic(run, f"{way}_values") == [4 * 4 * floats] * 3
        assert toys.traffic(run, f"{way}_codes") == [codes] * 3
