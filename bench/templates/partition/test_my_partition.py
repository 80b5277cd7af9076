"""Every client gets samples, none the same, and the seed decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.bench.grid import plugins
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.partition import partition
from repfl.datasets.core.recipe import Partition, Recipe, Training

FILE = Path(__file__).with_name("my_partition.py")


def test_samples_do_not_overlap_and_depend_on_the_seed_alone() -> None:
    plugins.load([str(FILE)] if FILE.exists() else [])
    training = Training(rounds=1, epochs=1, batch=8, lr=0.1)
    recipe = Recipe(
        dataset="digits",
        model="tiny",
        clients=5,
        partition=Partition("my-partition"),
        training=training,
    )
    digits = open_dataset("digits")
    splits = [partition(digits, recipe, seed) for seed in (0, 0, 1)]
    samples = np.concatenate([*splits[0].train, *splits[0].test])
    assert len(set(samples.tolist())) == len(samples) == len(digits.labels)
    assert splits[0].digest == splits[1].digest != splits[2].digest
