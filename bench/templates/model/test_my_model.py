"""The model fits into the suite: its head is found, and it starts as the seed says."""

from __future__ import annotations

from pathlib import Path

import torch

from repfl.algorithms import models
from repfl.algorithms.engine.rng import Streams
from repfl.bench.grid import plugins

FILE = Path(__file__).with_name("my_model.py")


def test_my_model_can_be_trained_by_any_method() -> None:
    plugins.load([str(FILE)] if FILE.exists() else [])
    model = models.build("my-model", channels=3, size=32, classes=10)
    assert model.params.head_weight.shape[0] == 10
    assert torch.equal(model.initial(Streams(0)), model.initial(Streams(0)))
