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


def test_the_readings_of_the_papers_and_codes_share_these_tensors() -> None:
    assert shared_by({}, "cnn4") == ["classifier.weight", "classifier.bias"]
    assert shared_by({"shared": "first"}, "cnn4") == ["conv1.weight", "conv1.bias"]
    assert shared_by({"shared": "first", "layers": 2}, "cnn4") == [
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
        "conv2.bias",
    ]
    assert shared_by({"layers": 2}, "cnn4") == [
        "fc1.weight",
        "fc1.bias",
        "classifier.weight",
        "classifier.bias",
    ]


def test_normalisation_goes_with_its_layer() -> None:
    assert shared_by({"shared": "first"}, "tiny-bn", 1, 8) == [
        "conv1.weight",
        "bn1.weight",
        "bn1.bias",
    ]


@pytest.mark.parametrize("hp", [{}, {"shared": "first"}])
def test_it_follows_its_plain_transcription(hp: dict[str, str]) -> None:
    run = toys.run("lg-fedavg", hp, dtype=torch.float64, sizes=(25, 16, 9), momentum=0.9, rounds=3)
    fed = run.fed
    upper = (
        fed.params.head
        if not hp
        else fed.params.where(name="conv1.weight") | fed.params.where(name="conv1.bias")
    )
    theta, own = fed.new_model(), [fed.new_model() for _ in range(3)]
    for round_ in (1, 2, 3):
        own = [
            plain.train(fed, torch.where(upper, theta, w), c, round_)[0] for c, w in enumerate(own)
        ]
        theta = sum(p * w for p, w in zip(plain.weights(fed, [0, 1, 2]), own, strict=True))
    for w, scored in zip(own, toys.everybody(run), strict=True):
        assert plain.apart(torch.where(upper, theta, w), scored) < 1e-9


def test_newcomers_hold_their_initial_layers_or_the_average() -> None:
    one, other = (
        toys.run("lg-fedavg", {"newcomer": n}, participation=0.5, rounds=1, sizes=toys.EQUAL)
        for n in ("initial", "global")
    )
    absent, local = ~one.state["seen"], ~one.fed.params.head
    assert torch.equal(
        toys.everybody(one)[absent][:, local], one.fed.new_model()[local].expand(2, -1)
    )
    assert other.fed.trained is not None
    assert torch.allclose(
        toys.everybody(other)[absent][:, local], other.fed.trained[:, local].mean(0)
    )
