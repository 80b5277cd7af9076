"""lg-fedavg: limiting cases, which layers are shared, plain transcription, bytes."""

from __future__ import annotations

import pytest
import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from tests.algorithms import plain, toys


def shared_by(hp: dict[str, object], model: str, channels: int = 3, size: int = 32) -> list[str]:
    """Names of the tensors that are shared."""
    net = models.build(model, channels=channels, size=size, classes=10)
    method = build("lg-fedavg", hp)
    run = Run(method, toys.recipe(clients=4), toys.data(toys.EQUAL), net, seed=0)
    mask = method.shared_mask(run.fed)  # type: ignore[attr-defined]
    return [s.name for s in run.fed.params if mask[s.start]]


@pytest.mark.parametrize(
    ("hp", "layers"),
    [
        ({}, ["classifier"]),
        ({"layers": 2}, ["fc1", "classifier"]),
        ({"shared": "first"}, ["conv1"]),
        ({"shared": "first", "layers": 2}, ["conv1", "conv2"]),
    ],
)
def test_the_readings_of_the_papers_and_codes_share_these_layers(
    hp: dict[str, object], layers: list[str]
) -> None:
    names = [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]
    assert shared_by(hp, "cnn4") == names


def test_normalisation_goes_with_its_layer() -> None:
    found = shared_by({"shared": "first"}, "tiny-bn", 1, 8)
    assert found == ["conv1.weight", "bn1.weight", "bn1.bias"]


@pytest.mark.parametrize("hp", [{}, {"shared": "first"}])
def test_it_follows_its_plain_transcription(hp: dict[str, str]) -> None:
    run = toys.run("lg-fedavg", hp, dtype=torch.float64, sizes=(25, 16, 9), momentum=0.9, rounds=3)
    fed = run.fed
    upper = fed.params.select(lambda s: s.name.startswith("conv1") if hp else s.head)
    theta, own = fed.new_model(), [fed.new_model() for _ in range(3)]
    for round_ in (1, 2, 3):
        starts = [torch.where(upper, theta, w) for w in own]
        own = [plain.train(fed, start, c, round_)[0] for c, start in enumerate(starts)]
        theta = sum(p * w for p, w in zip(plain.weights(fed, [0, 1, 2]), own, strict=True))
    for w, scored in zip(own, toys.everybody(run), strict=True):
        assert plain.apart(torch.where(upper, theta, w), scored) < 1e-9
