"""The real data, if prepared: content, speed of opening, and the partition of FedOBP's authors."""

from __future__ import annotations

import numpy as np
import pytest

from repfl.datasets.core import prepare
from repfl.datasets.core.cache import Prepared, open_dataset
from repfl.datasets.core.partition import majority_accuracy, partition
from repfl.datasets.core.registry import get
from tests.datasets.tiny import recipe

PUBLISHED = ("cifar10", "cifar100", "mnist", "fashion_mnist")


def opened(name: str) -> Prepared:
    if not prepare.is_prepared(name):
        pytest.skip(f"{name} is not prepared under the data root")
    return open_dataset(name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_content_is_what_was_published(name: str) -> None:
    opened(name)
    assert all(verdict.intact and verdict.published for verdict in prepare.verify(name))


@pytest.mark.parametrize("name", PUBLISHED)
def test_real_class_counts_are_the_published_ones(name: str) -> None:
    prepared = opened(name)
    counts = get(name).counts
    assert counts is not None
    for split, span in prepared.splits.items():
        assert tuple(np.bincount(prepared.labels[span.start : span.stop])) == counts[split]


@pytest.mark.parametrize(
    ("name", "pooled", "mean"),
    [("cifar10", 64.48, 67.81), ("mnist", 64.48, 65.33), ("fashion_mnist", 69.51, 67.43)],
)
def test_fedobp_s_partition_of_the_real_data_has_the_published_floor(
    name: str, pooled: float, mean: float
) -> None:
    prepared = opened(name)
    splits = partition(prepared, recipe("class-dirichlet", 100, seed=42, alpha=0.1), seed=0)
    per_client, together = majority_accuracy(splits, prepared.labels)
    assert (round(100 * together, 2), round(100 * per_client, 2)) == (pooled, mean)
