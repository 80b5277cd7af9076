"""The order of samples, and comparison with what is published. That order and fingerprints do not
change is seen by the digits, and by one data set in five formats.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from repfl.datasets.core.checks import canonical_order, check
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import Arrays, Edition, get
from tests.datasets.tiny import balanced


def test_equal_images_of_different_groups_have_a_fixed_order() -> None:
    same = np.zeros((6, 2, 2, 1), np.uint8)
    groups, source_ids = np.array([2, 0, 1, 2, 0, 1]), np.array([1, 1, 1, 0, 0, 0])
    order = canonical_order(Arrays(same, np.zeros(6, np.int64), groups, source_ids))
    assert groups[order].tolist() == [0, 0, 1, 1, 2, 2]
    assert source_ids[order].tolist() == [0, 1] * 3


FEW = {"train": (3,) * 10, "test": (2,) * 10}
MARKS = dict.fromkeys(FEW, "0" * 64)


@pytest.mark.parametrize(
    ("published", "relabel", "words"),
    [
        ({}, (3, 5), "here: cifar10 train has no sample of class 'cat'"),
        ({"counts": FEW}, (1, 0), "train has 6 samples of class 'airplane', 3 are published"),
        ({"totals": (6, *(5,) * 8, 4)}, (0, 0), "5 samples of class 'airplane', 6 are published"),
        ({"fingerprints": MARKS}, (0, 0), "cifar10 train has other images than published"),
        ({"sizes": {"train": 31, "test": 20}}, (0, 0), "train has 30 samples, 31 are published"),
    ],
)
def test_other_samples_than_published_are_refused(
    published: dict[str, Any], relabel: tuple[int, int], words: str
) -> None:
    edition = Edition("tiny", {"train": 30, "test": 20})
    dataset = replace(get("cifar10"), editions=(replace(edition, **published),))
    train, test = balanced(dataset, 3), balanced(dataset, 2)
    train.labels[train.labels == relabel[0]] = relabel[1]
    with pytest.raises(DataError, match=words):
        check(dataset, {"train": train, "test": test}, "here")
