"""Everybody gets something, nobody gets the same, and the seed decides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.bench.cells import plugins
from repfl.datasets.core.partition import deal
from repfl.datasets.core.recipe import Partition, Recipe, Training
from repfl.datasets.core.store import open_dataset

FILE = Path(__file__).with_name("my_partition.py")


def test_samples_are_dealt_without_overlap_and_by_the_seed_alone() -> None:
    plugins.load([str(FILE)])
    training = Training(rounds=1, epochs=1, batch=8, lr=0.1)
    recipe = Recipe("digits", "tiny", 5, Partition("my-partition"), training)
    digits = open_dataset("digits")
    shares = deal(digits, recipe, seed=0)
    dealt = np.concatenate([*shares.train, *shares.test])
    assert len(set(dealt.tolist())) == len(dealt) == len(digits.labels)
    assert deal(digits, recipe, seed=0).digest == shares.digest != deal(digits, recipe, 1).digest
