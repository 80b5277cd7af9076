"""The data are as described, and clients can share them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from repfl.bench.cells import plugins
from repfl.datasets.core.partition import deal
from repfl.datasets.core.recipe import Partition, Recipe, Training
from repfl.datasets.core.store import open_dataset

FILE = Path(__file__).with_name("my_dataset.py")


def test_every_sample_goes_to_one_of_four_clients() -> None:
    plugins.load([str(FILE)])
    prepared = open_dataset("my-dataset")
    share = None if "test" in prepared.splits else 0.25
    partition = Partition("iid", options={} if share is None else {"test_share": share})
    training = Training(rounds=1, epochs=1, batch=8, lr=0.1)
    shares = deal(prepared, Recipe("my-dataset", "mlp", 4, partition, training), seed=0)
    dealt = np.concatenate([*shares.train, *shares.test])
    assert len(dealt) == len(set(dealt.tolist())) <= len(prepared.labels)
