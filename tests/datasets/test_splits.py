"""Validation parts of every client, and unseen clients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import (
    ClientSplits,
    Pool,
    has_validation,
    partition,
    partitioners,
)
from repfl.datasets.core.recipe import Newcomers, Public, Recipe
from repfl.datasets.core.splits import hold_out_public, split_off_newcomers, stratified_sample
from tests.datasets import tiny

CLASSES, N = 10, 6
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(CLASSES), 240))
SPLIT = Pool(LABELS, {"train": range(2000), "test": range(2000, 2400)}, CLASSES)
DOMAINS = replace(SPLIT, groups=np.arange(2400) % N, group_names=tuple("abcdef"))
RULES: dict[str, dict[str, Any]] = {
    "class-dirichlet": {"alpha": 0.5},
    "class-shards": {"classes": 5},
    "client-dirichlet": {"alpha": 0.3, "train": 400, "test": 50},
    "domain": {},
    "iid": {},
    "n-cls": {},
    "pairwise-dirichlet": {"alpha": 0.5, "train_share": 0.8, "test_share": 0.2},
    "persons": {},
    "shards": {},
}


def recipe(rule: str, share: float | None, **options: Any) -> Recipe:
    return tiny.recipe(rule, N, val_share=share, **(options or RULES[rule]))


def dealt(rule: str, share: float | None, seed: int = 0) -> ClientSplits:
    return partition(DOMAINS if rule in ("domain", "persons") else SPLIT, recipe(rule, share), seed)


def test_every_rule_is_tried_here() -> None:
    assert sorted(RULES) == sorted(partitioners())


@pytest.mark.parametrize("rule", RULES)
def test_nobody_is_validated_on_what_anybody_trains_or_is_tested_on(rule: str) -> None:
    splits = dealt(rule, 0.2)
    val, train = np.concatenate(splits.val), np.concatenate(splits.train)
    assert not set(val) & set(train)
    for own, test in zip(splits.val, splits.test, strict=True):
        assert len(own) == len(set(own.tolist())) > 0
        assert not set(own) & set(test)


@pytest.mark.parametrize("rule", RULES)
def test_the_validation_part_comes_out_of_the_training_part_alone(rule: str) -> None:
    plain, apart = dealt(rule, None), dealt(rule, 0.2)
    assert has_validation(recipe(rule, 0.2).partition)
    for client in range(N):
        np.testing.assert_array_equal(plain.test[client], apart.test[client])
        kept = [i for i in plain.train[client] if i not in set(apart.val[client])]
        np.testing.assert_array_equal(kept, apart.train[client])
        assert set(apart.val[client]) < set(plain.train[client])
        share = len(apart.val[client]) / len(set(plain.train[client].tolist()))
        assert share == pytest.approx(0.2, abs=0.05)


def test_a_client_validates_on_the_classes_it_trains_on_in_their_proportion() -> None:
    splits = dealt("class-dirichlet", 0.25)
    for train, val in zip(splits.train, splits.val, strict=True):
        held = np.bincount(LABELS[np.concatenate([train, val])], minlength=CLASSES)
        own = np.bincount(LABELS[val], minlength=CLASSES)
        assert np.abs(own - held * len(val) / held.sum()).max() < 1


def test_the_draw_depends_on_the_seed_of_the_partition_and_on_nothing_else() -> None:
    one, two, other = (dealt("iid", 0.2, seed) for seed in (0, 0, 1))
    assert one.digest == two.digest != other.digest


def test_the_share_of_the_rule_itself_is_not_doubled() -> None:
    with pytest.raises(DataError, match="leave val_share out"):
        partition(SPLIT, recipe("pairwise-dirichlet", 0.2, alpha=0.5), 0)


def test_a_client_with_a_single_sample_is_refused() -> None:
    few = Pool(np.arange(12) % 2, {"train": range(6), "test": range(6, 12)}, 2)
    with pytest.raises(DataError, match="1 distinct training samples, too few for val_share"):
        partition(few, recipe("iid", 0.5), 0)


@pytest.mark.parametrize(("size", "count"), [(10, 3), (7, 7), (5, 9), (100, 1), (8, 0)])
def test_even_draws_have_the_size_that_was_asked_for(size: int, count: int) -> None:
    index = np.arange(size) * 3
    found = stratified_sample(index, np.zeros(300, dtype=int), count, np.random.default_rng(0))
    assert len(set(found.tolist())) == len(found) == min(size, count)
    assert set(found) <= set(index)


def test_every_sample_has_the_same_chance_of_an_even_draw() -> None:
    labels = np.array([0] * 7 + [1] * 2 + [2])
    rng = np.random.default_rng(0)
    drawn = [stratified_sample(np.arange(10), labels, 3, rng) for _ in range(4000)]
    hits = np.bincount(np.concatenate(drawn), minlength=10)
    assert np.abs(hits / 4000 - 0.3).max() < 0.03


def test_newcomers_leave_the_others_as_they_were() -> None:
    whole, few = dealt("client-dirichlet", 0.1), Newcomers(share=0.3, samples=20, epochs=1)
    there, late = split_off_newcomers(whole, LABELS, few, 5)
    assert (len(there.train), len(late.train)) == (4, 2)
    assert all(set(part) in [set(other) for other in whole.train] for part in there.train)
    for train, val, test in zip(late.train, late.val, late.test, strict=True):
        origin = next(i for i, part in enumerate(whole.test) if np.array_equal(part, test))
        assert len(train) == 20
        assert set(train) <= set(whole.train[origin])
        np.testing.assert_array_equal(val, whole.val[origin])


def test_one_client_at_least_is_a_newcomer() -> None:
    assert Newcomers(share=0.01, samples=1, epochs=0).count(20) == 1
    assert recipe("iid", None).residents == N


def with_public(pool: Pool, rule: str, samples: int, seed: int = 0) -> ClientSplits:
    """The splits of a recipe with public samples."""
    asked = replace(recipe(rule, 0.2), public=Public(samples=samples))
    return partition(pool, asked, seed)


@pytest.mark.parametrize("rule", ["class-dirichlet", "client-dirichlet", "iid"])
def test_public_samples_are_training_samples_that_nobody_keeps(rule: str) -> None:
    plain, splits = dealt(rule, 0.2), with_public(SPLIT, rule, 30)
    assert splits.public is not None
    public = set(splits.public.tolist())
    assert len(public) == 30
    assert public <= set(np.concatenate(plain.train).tolist())
    for client in range(N):
        left = [i for i in plain.train[client] if i not in public]
        np.testing.assert_array_equal(left, splits.train[client])
        np.testing.assert_array_equal(plain.test[client], splits.test[client])
        np.testing.assert_array_equal(plain.val[client], splits.val[client])
    another = with_public(SPLIT, rule, 30, seed=1).public
    assert another is not None
    assert public != set(another.tolist())


def test_public_samples_of_one_source_stay_together() -> None:
    pool = replace(SPLIT, source_ids=np.arange(2400) // 3)
    whole = ClientSplits.of([range(90), range(90, 180)], [range(180, 183)] * 2)
    splits = hold_out_public(whole, 10, 0, pool.source_ids)
    assert splits.public is not None
    assert len(splits.public) == 12
    _, times = np.unique(splits.public // 3, return_counts=True)
    assert times.tolist() == [3, 3, 3, 3]


def test_public_samples_leave_every_client_some() -> None:
    with pytest.raises(DataError, match=r"public.samples = 2000 leaves client 0 without"):
        with_public(SPLIT, "iid", 2000)
