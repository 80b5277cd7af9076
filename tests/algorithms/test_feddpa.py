"""FedDPA and the Fisher information: limiting cases, plain transcriptions, bytes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.model import Model
from repfl.algorithms.math.fisher import fisher
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)


def grouped() -> Model:
    """Return a model of two convolutions (with stride and padding) and group normalisation."""
    layers = [
        nn.Conv2d(1, 4, 3, stride=2, padding=1, bias=False),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.Conv2d(4, 6, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    ]
    return toys.module(nn.Sequential(*layers))


RESNET8 = models.build("resnet8", channels=1, size=8, classes=4)


@pytest.mark.parametrize("model", [RESNET8, grouped()], ids=lambda m: m.name)
def test_fisher_information_of_every_kind_of_layer(model: Model) -> None:
    data, recipe = toys.data((3, 0)), toys.recipe(clients=2)
    fed = Federation(model, data, recipe, seed=0, dtype=torch.float64)
    found = fisher(fed, fed.new_model().expand(2, -1))
    expected = plain.sample_gradients(fed, fed.new_model(), 0).square().mean(0)
    assert plain.apart(expected, found[0]) < 1e-12
    assert not found[1].any()  # has no sample


def test_uploaded_updates_are_bounded_and_noise_is_addressed() -> None:
    how: dict[str, Any] = {"sizes": SIZES, "rounds": 1, "dtype": torch.float64}
    run, quiet = (
        toys.run("feddpa", {"training": "phases", "clip": 0.5, "noise": noise}, **how)
        for noise in (2.0, 0.0)
    )
    update = 3 * torch.ones(4, run.fed.D, dtype=torch.float64)
    clipped = quiet.method.privatise(quiet.fed, update)
    assert torch.allclose(clipped.norm(dim=1), torch.full((4,), 0.5, dtype=torch.float64))
    noise = run.method.privatise(run.fed, update) - clipped
    assert noise.std().item() == pytest.approx(2.0 * 0.5 / 4**0.5, rel=0.05)
    with run.fed.as_active([2]):
        alone = run.method.privatise(run.fed, update[2:3])
    with run.fed.as_active([0, 2]):
        assert torch.equal(run.method.privatise(run.fed, update[:2])[1:], alone)


def transcription(fed: Federation, hp: dict[str, Any], rounds: int) -> tuple[Tensor, list[Tensor]]:
    """FedDPA client by client, everybody in every round."""
    theta, share = fed.new_model().double(), plain.weights(fed, list(range(fed.N)))
    last = [theta] * fed.N
    for t in range(1, rounds + 1):
        goal, ends, updates = plain.named(fed, theta.clone()), [], []
        for i in range(fed.N):
            information = plain.sample_gradients(fed, last[i], i).square().mean(0)
            mask = torch.zeros(fed.D, dtype=torch.bool)
            for s in fed.params:
                part = information[s.place]
                if part.max() > part.min():
                    part = (part - part.min()) / (part.max() - part.min())
                    relative = hp["threshold"] == "quantile"
                    mask[s.place] = part > (part.quantile(hp["tau"]) if relative else hp["tau"])
            end = torch.where(mask, last[i], theta)
            if hp["training"] == "joint":
                end, _ = plain.train(fed, end, i, t)
            else:

                def distance(p: dict[str, Tensor], goal: dict[str, Tensor] = goal) -> Tensor:
                    return sum(torch.norm(p[name] - goal[name]) for name in p)

                def near(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
                    return plain.cross_entropy(p, x, y) + hp["lam1"] / 2 * distance(p)

                def at_clip(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
                    away = torch.abs(distance(p) - hp["clip"])
                    return plain.cross_entropy(p, x, y) + hp["lam2"] / 2 * away

                end, _ = plain.train(fed, end, i, t, trainable=mask, loss=near)
                later: dict[str, Any] = {"first": fed.protocol.epochs, "loss": at_clip}
                end, _ = plain.train(fed, end, i, t, trainable=~mask, **later)
            ends.append(end)
            bound = math.inf if hp["training"] == "joint" else hp["clip"]
            updates.append((end - theta) / max(1.0, (end - theta).norm().item() / bound))
        theta = theta + sum(p * update for p, update in zip(share, updates, strict=True))
        last = ends
    return theta, last


JOINT = {"training": "joint"}
PHASES = {"training": "phases", "lam1": 0.3, "lam2": 0.2, "clip": 0.4}


@pytest.mark.parametrize(
    "hp",
    [
        {"tau": 0.1, "threshold": "absolute", **JOINT},
        {"tau": 0.6, "threshold": "quantile", **PHASES},
        {"tau": 0.05, "threshold": "absolute", **PHASES},
    ],
    ids=str,
)
def test_feddpa_follows_its_plain_transcription(hp: dict[str, Any]) -> None:
    run = toys.run("feddpa", hp, sizes=SIZES, dtype=torch.float64, stack=2)
    theta, last = transcription(run.fed, hp, 3)
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert max(plain.apart(a, b) for a, b in zip(last, run.state["last"], strict=True)) < 1e-9
