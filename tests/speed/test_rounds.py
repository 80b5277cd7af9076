"""Rounds per second of one small cell of each family, and training and scoring of each model,
beside an ordinary PyTorch loop.
"""

from __future__ import annotations

import pytest

from tests.speed.clients import DEVICES, run_of
from tests.speed.conftest import Figure
from tests.speed.plain import NETS, Plain

pytestmark = pytest.mark.speed
FAMILIES = {
    "server": "fedavg",
    "mask": "fedpurin",
    "personal head": "fedrep",
    "mixture": "apfl",
    "decentralised": "dfedavgm",
}
CLIENTS, SAMPLES = 10, 64
STACKED = {"cpu": [1, 10], "cuda": [1, 10, 32]}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("device", DEVICES)
def test_rounds(figure: Figure, device: str, family: str) -> None:
    run = run_of(FAMILIES[family], "cnn4", (SAMPLES,) * CLIENTS, device, batch=32)
    plain = Plain("cnn4", run.fed)
    assert (
        figure.rate(
            run.step,
            1,
            "rounds/s",
            device=device,
            plain=plain.train,
            plain_amount=1 / CLIENTS,
            rounds=3,
        )
        > 0
    )


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize(
    ("device", "stack"), [(device, stack) for device in DEVICES for stack in STACKED[device]]
)
def test_training(figure: Figure, device: str, stack: int, model: str) -> None:
    run = run_of("local", model, (SAMPLES,) * stack, device, stack=stack, batch=32)
    fed, plain = run.fed, Plain(model, run.fed)
    fed.begin(1, scoring=False)
    start = fed.new_model().expand(stack, -1)
    speed = figure.rate(
        lambda: fed.train(start),
        2 * stack,
        "client-steps/s",
        device=device,
        plain=plain.train,
        plain_amount=2,
        rounds=3,
    )
    assert speed > 0


@pytest.mark.parametrize("model", NETS)
@pytest.mark.parametrize("device", DEVICES)
def test_scoring(figure: Figure, device: str, model: str) -> None:
    samples, clients = 100, 4
    run = run_of("local", model, (1,) * clients, device, test=samples)
    fed, plain = run.fed, Plain(model, run.fed)
    fed.begin(1, scoring=True)
    models = fed.new_model().expand(clients, -1)
    speed = figure.rate(
        lambda: fed.score("post_agg", models),
        samples * clients,
        "samples/s",
        device=device,
        plain=lambda: plain.score(samples),
        plain_amount=samples,
        rounds=3,
    )
    assert speed > 0
