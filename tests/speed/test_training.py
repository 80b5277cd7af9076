"""Training through the engine against a plain PyTorch loop, as a ratio taken in one run."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import pytest

from tests.speed.clients import federation
from tests.speed.conftest import Figure
from tests.speed.plain import Plain

pytestmark = pytest.mark.speed
SAMPLES, BATCH, REPEATS = 640, 32, 15


def test_engine_trains_cnn4_at_no_less_than_95_percent_of_a_plain_loop(figure: Figure) -> None:
    fed = federation("cnn4", (SAMPLES,), "cpu", batch=BATCH)
    start, plain = fed.new_model()[None], Plain("cnn4", fed)

    def ratio() -> float:
        begun = perf_counter()
        plain.train()
        between = perf_counter()
        fed.train(start)
        return (between - begun) / (perf_counter() - between)

    ratio()  # warms both up
    share = figure.once(lambda: median(ratio() for _ in range(REPEATS)), "of a plain loop's speed")
    assert share >= 0.95
