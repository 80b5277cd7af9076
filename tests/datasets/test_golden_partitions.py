"""Partitions that must equal published ones. They depend on class counts alone, so no image is
needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from repfl.datasets.core.partition import (
    ClientSplits,
    Pool,
    majority_accuracy,
    partitioners,
    published_pool,
)
from repfl.datasets.core.registry import get
from repfl.datasets.partitions.dirichlet import ClassDirichlet, draw_classes, split_pair
from tests.datasets.tiny import pool, split

SAGITTAL = get("organsmnist").editions[0].totals or ()
# dataset, alpha, draws, min, median, max, pooled test size, client 0, majority-class accuracy
# pooled and per client
FEDOBP: list[tuple[Any, ...]] = [
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


def pool_of(name: str) -> Pool:
    published = published_pool(get(name))
    assert published is not None
    return published


def fedobp_s(samples: Pool, alpha: float) -> ClientSplits:
    return split(samples, "class-dirichlet", 100, at=7, seed=42, alpha=alpha)


@pytest.mark.parametrize("row", FEDOBP)
def test_fedobp_s_partition_comes_out_number_for_number(row: tuple[Any, ...]) -> None:
    name, alpha, draws, least, median, most, tested, first, pooled, mean = row
    samples = pool_of(name)
    splits = fedobp_s(samples, alpha)
    sizes = [len(train) + len(test) for train, test in zip(splits.train, splits.test, strict=True)]
    assert (min(sizes), np.median(sizes), max(sizes)) == (least, median, most)
    assert sum(map(len, splits.test)) == tested
    assert (len(splits.train[0]), len(splits.test[0])) == first
    per_client, together = majority_accuracy(splits, samples.labels)
    assert (round(100 * together, 2), round(100 * per_client, 2)) == (pooled, mean)
    stream, options = np.random.RandomState(42), ClassDirichlet(alpha=alpha)
    by_class = samples.by_class(samples.all_samples)
    assert draw_classes(by_class, 100, options, stream)[1] == draws


def test_fedobp_s_logged_test_sizes_come_out() -> None:
    splits = fedobp_s(pool_of("cifar10"), 0.1)
    logged = {77: 283, 81: 112, 21: 23, 68: 177, 93: 19, 31: 217, 20: 772, 59: 3, 48: 13, 34: 155}
    assert {client: len(splits.test[client]) for client in logged} == logged


@pytest.mark.parametrize("alpha", [0.01, 0.1, 1.0])
def test_star_pfl_s_clients_have_1261_sagittal_samples_each(alpha: float) -> None:
    splits = split(pool(SAGITTAL), "pairwise-dirichlet", 20, seed=5, alpha=alpha)
    parts = zip(splits.train, splits.test, splits.val, strict=True)
    assert {sum(map(len, own)) for own in parts} == {1261}
    assert all(750 <= len(train) <= 757 for train in splits.train)
    assert all(245 <= len(test) <= 252 for test in splits.test)


TEN = ([5000] * 10, [1000] * 10)
UNEVEN = ([40, 31, 57], [12, 9, 14])
SHARDS = {"classes": 2, "train": 50, "test": 100}
DIGESTS: list[tuple[str, int, int, dict[str, Any], tuple[Any, Any], str]] = [
    ("client-dirichlet", 20, 1, {"alpha": 0.1}, TEN, "82381f797a19c04eb7d623b7"),
    ("class-dirichlet", 100, 42, {"alpha": 0.1}, TEN, "2a444f6463f19fc9ee17a7fd"),
    ("class-shards", 10, 1, SHARDS, TEN, "e6561ee3e137417e6e577161"),
    ("n-cls", 100, 0, {"classes": 2}, TEN, "80199ee05258170859d1c0f7"),
    ("pairwise-dirichlet", 20, 5, {"alpha": 0.1}, (SAGITTAL, None), "dcfa81320b4e6d1de48dbd60"),
]


@pytest.mark.parametrize(("rule", "clients", "seed", "options", "counts", "digest"), DIGESTS)
def test_a_published_partition_never_changes(
    rule: str, clients: int, seed: int, options: dict[str, Any], counts: Any, digest: str
) -> None:
    """Each rule was compared once with the published code, or with the index files it ships, and
    gave the same lists.
    """
    assert split(pool(*counts), rule, clients, at=seed, **options).digest.startswith(digest)


def with_domains() -> Pool:
    """Samples of three classes in four domains of different sizes."""
    numbers = np.arange(211)
    labels, groups = numbers * 5 % 7 % 3, numbers % 10 % 7 % 4
    return Pool(labels, {"all": range(211)}, 3, groups, ("a", "b", "c", "d"))


PAIRS = [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [0, 3], [1, 4], [2, 5], [6, 9], [7, 8]]
OURS: list[tuple[str, int, dict[str, Any], Any, str]] = [
    ("iid", 7, {}, UNEVEN, "702f3733fb1816cbd94baa68"),
    ("iid", 7, {"test_share": 0.3}, UNEVEN[:1], "6d0b251c99b91daadce11546"),
    ("shards", 7, {"per_client": 3}, UNEVEN, "223532ec38c2158fec59101c"),
    ("shards", 7, {"per_client": 2, "test_share": 0.3}, UNEVEN[:1], "bd051298eb33b3caa45f85ae"),
    ("class-shards", 10, SHARDS | {"client_classes": PAIRS}, TEN, "51a5fb73ececf171f2102753"),
    ("domain", 4, {"test_share": 0.3}, None, "b12352b1a1312d9a852e3cde"),
    ("persons", 4, {"train_share": 0.5, "train": 20}, None, "4b1cad737311603a511ef3df"),
]


@pytest.mark.parametrize(("rule", "clients", "options", "counts", "digest"), OURS)
def test_a_partition_of_ours_changes_only_with_its_version(
    rule: str, clients: int, options: dict[str, Any], counts: Any, digest: str
) -> None:
    samples = pool(*counts) if counts else with_domains()
    assert split(samples, rule, clients, at=3, **options).digest.startswith(digest)


def test_every_rule_has_a_digest() -> None:
    names = {
        name
        for name, rule in partitioners().items()
        if rule.function.__module__.startswith("repfl.")
    }
    assert names == {row[0] for row in (*DIGESTS, *OURS)}


class Scripted(np.random.RandomState):
    """Draws what it is told to."""

    def __init__(self, *weights: tuple[float, float]) -> None:
        super().__init__(0)
        self.weights = iter(weights)

    def dirichlet(self, *_: object, **__: object) -> np.ndarray:
        return np.array(next(self.weights))


@pytest.mark.parametrize(
    "of_second_class",
    [
        pytest.param((np.nan, np.nan), id="a class without any weight goes to the second client"),
        pytest.param((0.9, 0.1), id="a client with its fair share gets no more"),
    ],
)
def test_a_pair_is_dealt_as_published_at_the_edges(of_second_class: tuple[float, float]) -> None:
    draws = Scripted((1.0, 0.0), of_second_class)
    first, second = split_pair(pool([30, 30]), np.arange(60), 0.01, draws)
    assert (first.tolist(), second.tolist()) == (list(range(30)), list(range(30, 60)))
