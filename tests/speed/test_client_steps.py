"""Client-steps and scored samples per second, per model, batch, number of stacked clients and
device.
"""

from __future__ import annotations

import pytest

from tests.speed import roofline
from tests.speed.clients import DEVICES, federation
from tests.speed.conftest import Figure
from tests.speed.plain import NETS, Plain

pytestmark = pytest.mark.speed
STEPS = {"cnn4": 12, "lenet5": 20, "resnet8": 6, "resnet10": 6, "resnet18": 4}
"""Steps of one client, so that a measurement takes seconds."""
LONG = ("resnet10", "resnet18")
SINGLE = [("cpu", 1, "loop", batch, model) for batch in (32, 100) for model in NETS]
STACKS = [("cpu", 10, "stack", 32, model) for model in NETS if model not in LONG]
GPU = [
    ("cuda", together, how, batch, model)
    for together in (1, 10, 32)
    for how in ("stack", "lanes")
    for batch in (32, 100)
    for model in NETS
]
CASES = SINGLE + STACKS + (GPU if "cuda" in DEVICES else [])


@pytest.mark.parametrize(("device", "together", "how", "batch", "model"), CASES)
def test_client_steps(
    figure: Figure, device: str, together: int, how: str, batch: int, model: str
) -> None:
    steps = 24 if device == "cuda" else STEPS[model] if together == 1 else max(1, STEPS[model] // 6)
    ways = {
        "loop": {},
        "stack": {"chunk": together, "lanes": int(device == "cuda")},
        "lanes": {"lanes": together},
    }
    fed = federation(model, (batch * steps,) * together, device, batch=batch, **ways[how])
    start, plain = fed.new_model().expand(together, -1), Plain(model, fed)
    for _ in range(2 if device == "cuda" else 0):
        fed.train(start)  # records its steps
    least = roofline.of_step(plain).seconds(device)
    beside = {
        "plain": plain.train,
        "plain_amount": steps,
        "least": least,
        "rounds": 3 if model in LONG else 5,
        "device": device,
    }
    assert figure.rate(lambda: fed.train(start), steps * together, "client-steps/s", **beside) > 0


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize("device", DEVICES)
def test_scoring(figure: Figure, device: str, model: str) -> None:
    samples, clients = 100, 4 if device == "cpu" else 100
    fed = federation(model, (1,) * clients, device, test=samples)
    weights, plain = fed.new_model().expand(clients, -1), Plain(model, fed)
    least = roofline.of_scoring(plain, samples).seconds(device) / samples
    how = {
        "plain": lambda: plain.score(samples),
        "plain_amount": samples,
        "least": least,
        "device": device,
    }
    assert (
        figure.rate(lambda: fed.correct(weights, "test"), samples * clients, "samples/s", **how) > 0
    )
