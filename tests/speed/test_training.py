"""Training through the engine against a plain PyTorch loop, as a ratio taken in one run."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from algorithms import models
from algorithms.core.data import ClientData
from algorithms.core.federation import Federation
from bench.trust.contract import toy_recipe

pytestmark = pytest.mark.speed
SAMPLES, BATCH, REPEATS = 640, 32, 15


class Plain(nn.Module):
    """cnn4 as an ordinary module."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 32, 5), nn.Conv2d(32, 64, 5)
        self.fc1, self.fc2 = nn.Linear(1600, 512), nn.Linear(512, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


def cifar_shaped() -> ClientData:
    rng = np.random.default_rng(0)
    images, labels = rng.integers(0, 256, (SAMPLES, 32, 32, 3), np.uint8), rng.integers(0, 10, SAMPLES)
    none = [torch.arange(0)]
    own, scale = [torch.arange(SAMPLES)], torch.full((3,), 1 / 255)
    return ClientData(torch.from_numpy(images), torch.from_numpy(labels), own, none, none, scale, torch.zeros(3), 10)


def plain_loop(data: ClientData, order: Tensor) -> Callable[[], None]:
    """channels-last, the same batches, torch.optim.SGD."""
    net = Plain().to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    images = (data.images.permute(0, 3, 1, 2) / 255).contiguous(memory_format=torch.channels_last)

    def epoch() -> None:
        for index in order.split(BATCH):
            optimiser.zero_grad()
            F.cross_entropy(net(images[index]), data.labels[index]).backward()
            optimiser.step()

    return epoch


def test_engine_trains_cnn4_at_no_less_than_95_percent_of_a_plain_loop(benchmark: Any) -> None:
    torch.set_num_threads(1)
    data = cifar_shaped()
    model = models.build("cnn4", channels=3, size=32, classes=10)
    fed = Federation(model, data, toy_recipe(clients=1, epochs=1, batch=BATCH, lr=0.01), seed=0)
    fed.begin(1, scoring=False)
    start = fed.new_model()[None]
    plain = plain_loop(data, fed.streams.permutation(SAMPLES, "batches", 1, 0, 0))
    ratios = []
    for _ in range(REPEATS):
        begun = perf_counter()
        plain()
        between = perf_counter()
        fed.train(start)
        ratios.append((between - begun) / (perf_counter() - between))
    benchmark.extra_info["ratio to a plain loop"] = median(ratios)
    benchmark.extra_info["samples per batch"] = BATCH
    benchmark.pedantic(fed.train, args=(start,), rounds=5, warmup_rounds=1)
    benchmark.extra_info["samples per second"] = SAMPLES / benchmark.stats.stats.median
    assert median(ratios) >= 0.95
