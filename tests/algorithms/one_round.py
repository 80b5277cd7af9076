"""A process of its own that takes rounds of a method on synthetic clients and tells, as JSON, how
much memory it held at most.

Linux only: the high-water mark is that of this process alone, which `getrusage` does not promise
after a fork.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repfl.algorithms import models
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.client_data import ClientData
from repfl.bench.check.toy_clients import toy_recipe
from repfl.bench.run import record_parts

FEW, TESTED = 8, 4


def held(line: str) -> int:
    """Bytes of this process: `VmRSS` now, `VmHWM` at most so far."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) * 1024 for text in lines if text.startswith(line))


def clients(count: int, most: int, images: int) -> ClientData:
    """The first client has a whole batch, the others a few images: memory is that of large batches,
    time is not.
    """
    rng = np.random.default_rng(0)
    pixels = torch.from_numpy(rng.integers(0, 256, (images, 32, 32, 3), np.uint8))
    labels = torch.from_numpy(rng.integers(0, 10, images))
    train = [torch.arange(most), *[torch.arange(FEW)] * (count - 1)]
    test, none = [torch.arange(TESTED)] * count, [torch.arange(0)] * count
    scale, shift = torch.full((3,), 1 / 255), torch.zeros(3)
    return ClientData(pixels, labels, train, test, none, scale, shift, 10)


def main(method: str, model: str, count: str, batch: str, participation: str, rounds: str) -> None:
    torch.set_num_threads(1)
    net = models.build(model, channels=3, size=32, classes=10)
    data = clients(int(count), int(batch), 50_000)
    training: dict[str, Any] = {"rounds": int(rounds), "epochs": 1, "batch": int(batch)}
    training |= {"momentum": 0.9, "clip": 10.0, "lr": 0.01}
    recipe = toy_recipe(clients=int(count), participation=float(participation), **training)
    before = held("VmRSS")
    run = Run(build(method), recipe, data, net, seed=0)
    run.start()
    while not run.done:
        run.step()
    record_parts.digests(run)
    copy = 4 * int(count) * net.params.size
    print(json.dumps({"before": before, "peak": held("VmHWM"), "copy": copy}))


if __name__ == "__main__":
    main(*sys.argv[1:])
