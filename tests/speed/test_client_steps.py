"""Client-steps and scored samples per second, per model, batch, number of stacked clients and device."""

from __future__ import annotations

import pytest

from tests.speed import roofline
from tests.speed.clients import DEVICES, federation
from tests.speed.conftest import Figure
from tests.speed.plain import NETS, Plain

pytestmark = pytest.mark.speed
STEPS = {"cnn4": 12, "lenet5": 20, "resnet8": 6, "resnet10": 2, "resnet18": 1}
"""Steps of one client, so that a measurement takes seconds."""
CASES = [(device, stacked) for device in DEVICES for stacked in ((1, 10) if device == "cpu" else (1, 10, 32))]


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize("batch", [32, 100])
@pytest.mark.parametrize(("device", "stacked"), CASES)
def test_client_steps(figure: Figure, device: str, stacked: int, batch: int, model: str) -> None:
    steps = STEPS[model] if stacked == 1 or device == "cuda" else max(1, STEPS[model] // 6)
    fed = federation(model, (batch * steps,) * stacked, device, chunk=stacked, batch=batch)
    start, plain = fed.new_model().expand(stacked, -1), Plain(model, fed)
    least = roofline.of_step(plain).seconds(device)
    rounds = 3 if model in ("resnet10", "resnet18") else 5
    how = {"plain": plain.train, "plain_amount": steps, "least": least, "rounds": rounds, "device": device}
    assert figure.rate(lambda: fed.train(start), steps * stacked, "client-steps/s", **how) > 0


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize("device", DEVICES)
def test_scoring(figure: Figure, device: str, model: str) -> None:
    samples, clients = 100, 4 if device == "cpu" else 100
    fed = federation(model, (1,) * clients, device, test=samples)
    weights, plain = fed.new_model().expand(clients, -1), Plain(model, fed)
    least = roofline.of_scoring(plain, samples).seconds(device) / samples
    how = {"plain": lambda: plain.score(samples), "plain_amount": samples, "least": least, "device": device}
    assert figure.rate(lambda: fed.correct(weights, "test"), samples * clients, "samples/s", **how) > 0
