"""Partitions that must equal published ones. They depend on class counts alone, so no image is
needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from repfl.datasets.core.partition import ClientSplits, majority_accuracy
from repfl.datasets.core.registry import get
from repfl.datasets.partitions.dirichlet import ClassDirichlet, draw_classes, split_pair
from tests.datasets.tiny import pool, split

CLIENT = tuple[int, int]
# dataset, alpha, draws, min, median, max, pooled test size, client 0, majority-class accuracy
# pooled and per client
FEDOBP = [
    ("cifar10", 0.1, 8, 14, 495.5, 3091, 14954, (502, 167), 64.48, 67.81),
    ("cifar10", 0.5, 1, 177, 534, 1211, 14963, (388, 129), 35.66, 35.46),
    ("cifar100", 0.1, 1, 265, 591.5, 1110, 14962, (307, 102), 19.26, 19.04),
    ("cifar100", 0.5, 1, 440, 592, 794, 14962, (525, 174), 7.01, 7.01),
    ("mnist", 0.1, 1, 13, 446.5, 2458, 17461, (321, 106), 64.48, 65.33),
    ("mnist", 0.5, 1, 149, 654.5, 2119, 17463, (944, 314), 37.34, 37.36),
    ("fashion_mnist", 0.1, 4, 52, 524, 3378, 17463, (149, 49), 69.51, 67.43),
    ("fashion_mnist", 0.5, 1, 130, 634.5, 1446, 17462, (726, 241), 37.94, 38.13),
    ("svhn", 0.1, 5, 40, 737.5, 5231, 24787, (686, 228), 69.06, 68.11),
    ("svhn", 0.5, 1, 207, 920, 2876, 24789, (283, 94), 38.65, 38.30),
]


def shares_of(name: str, alpha: float) -> tuple[ClientSplits, np.ndarray]:
    counts = get(name).counts
    assert counts is not None
    samples = pool(counts["train"], counts["test"])
    return split(samples, "class-dirichlet", 100, at=7, seed=42, alpha=alpha), samples.labels


@pytest.mark.parametrize(
    ("name", "alpha", "draws", "least", "median", "most", "tested", "first", "pooled", "mean"),
    FEDOBP,
)
def test_fedobp_s_partition_comes_out_number_for_number(
    name: str,
    alpha: float,
    draws: int,
    least: int,
    median: float,
    most: int,
    tested: int,
    first: CLIENT,
    pooled: float,
    mean: float,
) -> None:
    splits, labels = shares_of(name, alpha)
    sizes = [len(train) + len(test) for train, test in zip(splits.train, splits.test, strict=True)]
    assert (min(sizes), np.median(sizes), max(sizes)) == (least, median, most)
    assert sum(map(len, splits.test)) == tested
    assert (len(splits.train[0]), len(splits.test[0])) == first
    per_client, together = majority_accuracy(splits, labels)
    assert round(100 * together, 2) == pooled
    assert round(100 * per_client, 2) == mean
    counts = get(name).counts
    assert counts is not None
    samples = pool(counts["train"], counts["test"])
    stream, options = np.random.RandomState(42), ClassDirichlet(alpha=alpha)
    by_class = samples.by_class(samples.all_samples)
    assert draw_classes(by_class, 100, options, stream)[1] == draws


def test_fedobp_s_logged_test_sizes_come_out() -> None:
    splits, _ = shares_of("cifar10", 0.1)
    logged = {77: 283, 81: 112, 21: 23, 68: 177, 93: 19, 31: 217, 20: 772, 59: 3, 48: 13, 34: 155}
    assert {client: len(splits.test[client]) for client in logged} == logged


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
def test_star_pfl_s_clients_have_1261_sagittal_samples_each(alpha: float) -> None:
    totals = get("organsmnist").editions[0].totals
    assert totals is not None
    splits = split(pool(totals), "pairwise-dirichlet", 20, seed=5, alpha=alpha)
    assert {
        sum(map(len, parts)) for parts in zip(splits.train, splits.test, splits.val, strict=True)
    } == {1261}
    assert all(750 <= len(train) <= 757 for train in splits.train)
    assert all(245 <= len(test) <= 252 for test in splits.test)


def test_star_pfl_s_clients_have_2942_axial_samples_each() -> None:
    counts = (
        3313,
        2407,
        2375,
        2611,
        6609,
        6412,
        10482,
        6699,
        6751,
        5182,
        6009,
    )  # sums to 58,850; the shape does not depend on more
    splits = split(pool(counts), "pairwise-dirichlet", 20, seed=5, alpha=0.1)
    assert {
        sum(map(len, parts)) for parts in zip(splits.train, splits.test, splits.val, strict=True)
    } == {2942}
    assert 1757 <= np.mean([len(train) for train in splits.train]) <= 1765


def test_star_pfl_s_pairs_are_iid_although_their_clients_are_not() -> None:
    totals = get("organsmnist").editions[0].totals
    assert totals is not None
    samples = pool(totals)
    splits = split(samples, "pairwise-dirichlet", 20, seed=5, alpha=0.1)
    everyone = np.array(totals) / sum(totals)

    def distance(index: np.ndarray) -> float:
        return 0.5 * float(
            np.abs(np.bincount(samples.labels[index], minlength=11) / len(index) - everyone).sum()
        )

    held = [
        np.concatenate(parts) for parts in zip(splits.train, splits.test, splits.val, strict=True)
    ]
    assert 0.38 < np.mean([distance(index) for index in held]) < 0.50
    assert np.mean([distance(np.concatenate(held[k : k + 2])) for k in range(0, 20, 2)]) < 0.04


TEN = ([5000] * 10, [1000] * 10)
SAGITTAL = [2147, 1180, 1157, 1477, 1976, 1971, 6033, 1399, 1517, 3627, 2737]
DIGESTS = [
    (
        "client-dirichlet",
        20,
        1,
        {"alpha": 0.1},
        TEN,
        "82381f797a19c04eb7d623b7ccf78385d1eef634d1be7e33fc298239fe53c78c",
    ),
    (
        "class-dirichlet",
        100,
        42,
        {"alpha": 0.1},
        TEN,
        "2a444f6463f19fc9ee17a7fd311965848a1a841ce95fe33e083efdcb9f4c254c",
    ),
    (
        "class-shards",
        10,
        1,
        {"classes": 2, "train": 50, "test": 100},
        TEN,
        "e6561ee3e137417e6e577161252e934a803adb42a4e619d2eb29ca7a4394fba8",
    ),
    (
        "n-cls",
        100,
        0,
        {"classes": 2},
        TEN,
        "80199ee05258170859d1c0f7ca521c3c0658e58dd53032cedee87c2e9f2df74a",
    ),
    (
        "pairwise-dirichlet",
        20,
        5,
        {"alpha": 0.1},
        (SAGITTAL, None),
        "dcfa81320b4e6d1de48dbd60952f6e85728b989e506548ccbc35dee1732dd7b9",
    ),
]


@pytest.mark.parametrize(("rule", "clients", "seed", "options", "counts", "digest"), DIGESTS)
def test_a_published_partition_never_changes(
    rule: str,
    clients: int,
    seed: int,
    options: dict[str, Any],
    counts: tuple[list[int], list[int] | None],
    digest: str,
) -> None:
    """Each rule was compared once with the published code, or with the index files it ships, and
    gave the same lists.
    """
    assert split(pool(*counts), rule, clients, at=seed, **options).digest == digest


class Scripted(np.random.RandomState):
    """Draws what it is told to."""

    def __init__(self, *weights: tuple[float, float]) -> None:
        super().__init__(0)
        self.weights = iter(weights)

    def dirichlet(self, *_: object, **__: object) -> np.ndarray:
        return np.array(next(self.weights))


def test_a_class_without_any_weight_goes_to_the_second_client_of_a_pair() -> None:
    first, second = split_pair(
        pool([30, 30]), np.arange(60), 0.01, Scripted((1.0, 0.0), (np.nan, np.nan))
    )
    assert (first.tolist(), second.tolist()) == (list(range(30)), list(range(30, 60)))


def test_a_client_with_its_fair_share_gets_no_more() -> None:
    first, second = split_pair(
        pool([30, 30]), np.arange(60), 0.01, Scripted((1.0, 0.0), (0.9, 0.1))
    )
    assert (len(first), len(second)) == (30, 30)
