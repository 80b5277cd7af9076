"""Client-steps and scored samples per second, per model, batch, number of stacked clients and
device.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.speed.clients import DEVICES, federation
from tests.speed.conftest import Figure
from tests.speed.plain import NETS, Plain

pytestmark = pytest.mark.speed
STEPS = {"cnn4": 12, "lenet5": 20, "resnet8": 6, "resnet10": 6, "resnet18": 4}
"""Steps of one client, so that a measurement takes seconds."""
LONG = ("resnet10", "resnet18")
SINGLE = [("cpu", 1, batch, model) for batch in (32, 100) for model in NETS]
STACKS = [("cpu", 10, 32, model) for model in NETS if model not in LONG]
GPU = [("cuda", s, batch, model) for s in (1, 10, 32) for batch in (32, 100) for model in NETS]
CASES = SINGLE + STACKS + (GPU if "cuda" in DEVICES else [])


@pytest.mark.parametrize(("device", "stack", "batch", "model"), CASES)
def test_client_steps(figure: Figure, device: str, stack: int, batch: int, model: str) -> None:
    steps = 24 if device == "cuda" else STEPS[model] if stack == 1 else max(1, STEPS[model] // 6)
    fed = federation(model, (batch * steps,) * stack, device, batch=batch, stack=stack)
    start, plain = fed.new_model().expand(stack, -1), Plain(model, fed)
    beside: dict[str, Any] = {"plain": plain.train, "plain_amount": steps, "device": device}
    beside["rounds"] = 3 if model in LONG else 5
    assert figure.rate(lambda: fed.train(start), steps * stack, "client-steps/s", **beside) > 0


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize("device", DEVICES)
def test_scoring(figure: Figure, device: str, model: str) -> None:
    samples, clients = 100, 4 if device == "cpu" else 100
    fed = federation(model, (1,) * clients, device, test=samples)
    weights, plain = fed.new_model().expand(clients, -1), Plain(model, fed)
    beside: dict[str, Any] = {"plain": lambda: plain.score(samples), "plain_amount": samples}
    scored = partial(fed.count_correct, weights, "test")
    assert figure.rate(scored, samples * clients, "samples/s", device=device, **beside) > 0
