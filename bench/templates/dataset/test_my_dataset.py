"""The data are as described, and can be partitioned."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.bench.grid import plugins
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.partition import partition
from repfl.datasets.core.recipe import Partition, Recipe, Training

FILE = Path(__file__).with_name("my_dataset.py")


def test_every_sample_goes_to_one_of_four_clients() -> None:
    plugins.load([str(FILE)] if FILE.exists() else [])
    prepared = open_dataset("my-dataset")
    share = None if "test" in prepared.splits else 0.25
    iid = Partition("iid", options={} if share is None else {"test_share": share})
    training = Training(rounds=1, epochs=1, batch=8, lr=0.1)
    recipe = Recipe(dataset="my-dataset", model="mlp", clients=4, partition=iid, training=training)
    splits = partition(prepared, recipe, seed=0)
    samples = np.concatenate([*splits.train, *splits.test])
    assert len(samples) == len(set(samples.tolist())) <= len(prepared.labels)
