"""lg-fedavg: which layers are shared."""

from __future__ import annotations

import pytest

from repfl.algorithms import models
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from tests.algorithms import toys


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
