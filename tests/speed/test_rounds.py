"""Rounds per second of one small cell of each family; FedAvg, which does least beside training, is
the measure of the others.
"""

from __future__ import annotations

import pytest

from tests.speed.clients import DEVICES, run_of
from tests.speed.conftest import Figure
from tests.speed.plain import Plain

pytestmark = pytest.mark.speed
FAMILIES = {
    "server": "fedavg",
    "mask": "fedpurin",
    "personal head": "fedrep",
    "mixture": "apfl",
    "decentralised": "dfedavgm",
}
CLIENTS, SAMPLES = 10, 64


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("device", DEVICES)
def test_rounds(figure: Figure, device: str, family: str) -> None:
    run = run_of(FAMILIES[family], "cnn4", (SAMPLES,) * CLIENTS, device, batch=32)
    beside = {"plain": Plain("cnn4", run.fed).train, "plain_amount": 1 / CLIENTS}
    assert figure.rate(run.step, 1, "rounds/s", device=device, rounds=3, **beside) > 0
