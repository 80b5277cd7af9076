"""Properties of every partitioner."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from repfl.datasets.cifar10c import CORRUPTIONS
from repfl.datasets.core import partition
from repfl.datasets.core.checks import canonical_order
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ClientSplits, Pool, partitioners, resolve
from repfl.datasets.core.recipe import Partition
from repfl.datasets.core.registry import Arrays
from tests.datasets.tiny import images, pool, split

seeds = st.integers(0, 2**32 - 1)
counts = st.lists(st.integers(20, 60), min_size=2, max_size=8)
some, even = st.integers(2, 6), st.sampled_from([2, 4, 6])
quick = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
EXAMPLES: dict[str, dict[str, Any]] = {
    "iid": {},
    "shards": {"per_client": 2},
    "client-dirichlet": {"alpha": 0.3, "train": 20, "test": 10},
    "class-dirichlet": {"alpha": 0.5},
    "pairwise-dirichlet": {"alpha": 0.3},
    "class-shards": {"classes": 5},
    "n-cls": {"classes": 2},
}


def pieces(splits: ClientSplits) -> list[np.ndarray]:
    return [*splits.train, *splits.test, *splits.val]


def once(splits: ClientSplits) -> bool:
    """Whether no sample is held twice, by whomever."""
    index = np.concatenate(pieces(splits))
    return len(np.unique(index)) == len(index)


def all_once(samples: Pool, splits: ClientSplits) -> bool:
    """Whether every sample is held once."""
    return once(splits) and len(np.concatenate(pieces(splits))) == len(samples.labels)


def within(samples: Pool, splits: ClientSplits) -> bool:
    """Whether train parts come from the train split and test parts from the test split."""
    return all(
        set(np.concatenate(parts)) <= set(samples.splits[name])
        for name, parts in (("train", splits.train), ("test", splits.test))
    )


# -- rule by rule ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["iid", "shards", "class-shards"])
@quick
@given(st.integers(3, 6), st.integers(3, 6), seeds)
def test_every_sample_is_dealt_once_and_tests_have_the_classes_of_training(
    rule: str, train: int, test: int, seed: int
) -> None:
    samples = pool([10 * train] * 6, [10 * test] * 6)
    splits = split(samples, rule, 6, at=seed, **EXAMPLES[rule])
    assert all_once(samples, splits)
    assert within(samples, splits)
    for part, other in zip(splits.train, splits.test, strict=True):
        assert (len(part), len(other)) == (10 * train, 10 * test)
        if rule != "iid":
            assert set(samples.labels[part]) == set(samples.labels[other])


@quick
@given(counts, st.floats(0.1, 0.9), st.integers(1, 10), seeds)
def test_iid_cuts_a_dataset_without_official_splits_per_class(
    train: list[int], share: float, clients: int, seed: int
) -> None:
    samples = pool(train)
    wanted = [int(share * n + 0.5) for n in train]
    assume(min(wanted) >= 1 and clients <= sum(wanted) <= sum(train) - clients)
    splits = split(samples, "iid", clients, at=seed, test_share=share)
    assert once(splits)
    tested = np.bincount(samples.labels[np.concatenate(splits.test)], minlength=len(train))
    assert tested.tolist() == wanted


@quick
@given(st.integers(2, 12), st.floats(0.05, 10), st.integers(1, 40), st.integers(1, 20), seeds)
def test_client_dirichlet_gives_everybody_the_size_asked_for(
    classes: int, alpha: float, train: int, test: int, seed: int
) -> None:
    samples = pool([50] * classes, [30] * classes)
    splits = split(samples, "client-dirichlet", 4, at=seed, alpha=alpha, train=train, test=test)
    assert {len(part) for part in splits.train} == {train}
    assert {len(part) for part in splits.test} == {test}
    assert within(samples, splits)
    # without replacement inside a client while the class lasts
    for part in (*splits.train, *splits.test):
        assert len(np.unique(part)) == len(part) or np.bincount(samples.labels[part]).max() > 30


def test_client_dirichlet_repeats_samples_only_of_an_exhausted_class() -> None:
    samples = pool([2, 2, 60], [10] * 3)
    splits = split(samples, "client-dirichlet", 4, alpha=100.0, train=60, test=15)
    for part in splits.train:
        assert len(part) == 60
        assert len(np.unique(part[samples.labels[part] == 2])) == (samples.labels[part] == 2).sum()


@quick
@given(st.lists(st.integers(100, 300), min_size=3, max_size=8), st.floats(0.2, 5), some, seeds)
def test_class_dirichlet_deals_every_sample_of_all_splits_once(
    sizes: list[int], alpha: float, clients: int, seed: int
) -> None:
    samples = pool(sizes, sizes)
    try:
        splits = split(samples, "class-dirichlet", clients, at=seed, alpha=alpha, minimum=8)
    except DataError as error:
        assume("draws gave all clients" not in str(error))
        raise
    assert all_once(samples, splits)
    for train, test in zip(splits.train, splits.test, strict=True):
        assert len(train) + len(test) >= 8
        assert len(test) == int(0.25 * (len(train) + len(test)))


@quick
@given(st.lists(st.integers(150, 300), min_size=2, max_size=6), st.floats(0.05, 5), even, seeds)
def test_pairwise_dirichlet_gives_equal_sizes_and_cuts_every_class_in_three(
    sizes: list[int], alpha: float, clients: int, seed: int
) -> None:
    samples = pool(sizes)
    splits = split(samples, "pairwise-dirichlet", clients, at=seed, alpha=alpha)
    assert once(splits)
    step = int(1 / clients * len(samples.labels))
    for parts in zip(splits.train, splits.test, splits.val, strict=True):
        assert sum(map(len, parts)) == step
        held = [np.bincount(samples.labels[part], minlength=len(sizes)) for part in parts]
        total = np.sum(held, axis=0)
        assert held[0].tolist() == [int(0.6 * n) for n in total]
        assert held[1].tolist() == [int(0.2 * n) for n in total]


PAIRS = [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]


@quick
@given(seeds)
def test_class_shards_give_each_client_the_classes_that_are_named(seed: int) -> None:
    samples, names = pool([20] * 6, [10] * 6), {"classes": 2, "client_classes": PAIRS}
    splits = split(samples, "class-shards", 5, at=seed, **names, train=6, test=4)
    assert within(samples, splits)
    assert once(splits)
    for row, train, test in zip(PAIRS, splits.train, splits.test, strict=True):
        for index, each in ((train, 6), (test, 4)):
            held = np.bincount(samples.labels[index], minlength=6)
            assert held.tolist() == [each * (label in row) for label in range(6)]
    whole = split(samples, "class-shards", 5, at=seed, **names)
    assert len(np.concatenate(whole.train)) == 5 * 20  # nobody has the sixth class


def test_options_that_came_later_are_part_of_a_recipe_only_if_they_are_set() -> None:
    """The ids of published cells rest on it."""
    assert "client_classes" not in resolve(Partition("class-shards"))
    named = resolve(Partition("class-shards", options={"client_classes": PAIRS}))
    assert named["client_classes"] == PAIRS
    assert named.keys() - resolve(Partition("class-shards")).keys() == {"client_classes"}


def corrupted(photos: int = 40, classes: int = 4) -> Pool:
    """A pool like CIFAR-10-C's: every photograph under every corruption and severity."""
    names = tuple(f"{name}/{severity}" for name in CORRUPTIONS for severity in range(1, 6))
    labels = np.tile(np.arange(photos) % classes, len(names))
    groups = np.repeat(np.arange(len(names)), photos)
    source_ids = np.tile(np.arange(photos), len(names))
    order = np.random.default_rng(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    return Pool(
        labels[order], {"all": range(len(labels))}, classes, groups[order], names, source_ids[order]
    )


def shown(samples: Pool, part: np.ndarray) -> set[str]:
    """The corruptions that some samples show."""
    assert samples.groups is not None
    return {samples.group_names[group] for group in samples.groups[part]}


def sources(samples: Pool, splits: ClientSplits) -> tuple[set[int], set[int]]:
    """The photographs that are trained on, and those that are tested."""
    ids = samples.source_ids
    assert ids is not None
    return set(ids[np.concatenate(splits.train)]), set(ids[np.concatenate(splits.test)])


@quick
@given(seeds)
def test_class_shards_show_each_client_its_own_corruption_and_never_train_on_a_test_photograph(
    seed: int,
) -> None:
    samples = corrupted()
    splits = split(samples, "class-shards", 4, at=seed, classes=2, test_share=0.2)
    for client, parts in enumerate(zip(splits.train, splits.test, strict=True)):
        for part in parts:
            assert shown(samples, part) == {f"{CORRUPTIONS[client]}/5"}
    trained, tested = sources(samples, splits)
    assert not trained & tested
    assert len(trained | tested) == 40


def photographed(official: dict[str, range]) -> Pool:
    """120 samples: 40 photographs in three forms each."""
    source_ids = np.arange(120) // 3
    return Pool(source_ids % 4, official, 4, source_ids=source_ids)


@pytest.mark.parametrize(
    ("rule", "options"),
    [("iid", {}), ("shards", {"per_client": 2}), ("class-shards", {"classes": 2})],
)
def test_a_cut_keeps_samples_of_one_source_together(rule: str, options: dict[str, Any]) -> None:
    samples = photographed({"all": range(120)})
    trained, tested = sources(samples, split(samples, rule, 4, test_share=0.2, **options))
    assert not trained & tested
    assert len(tested) == 8


def test_a_partitioner_that_separates_samples_of_one_source_is_refused() -> None:
    with pytest.raises(DataError, match="appear in more than one split"):
        split(photographed({"all": range(120)}), "class-dirichlet", 2, alpha=0.5)


def test_official_splits_that_share_a_source_are_refused() -> None:
    samples = photographed({"train": range(100), "test": range(100, 120)})
    with pytest.raises(DataError, match="derived from source 33 appear in"):
        split(samples, "iid", 2)


def test_class_shards_take_the_corruptions_and_the_severity_asked_for() -> None:
    samples, chosen = corrupted(), ["fog", "snow", "frost", "contrast"]
    how: dict[str, Any] = {"classes": 2, "test_share": 0.2}
    splits = split(samples, "class-shards", 4, **how, severity=3, corruptions=chosen)
    assert [shown(samples, part) for part in splits.train] == [{f"{name}/3"} for name in chosen]
    with pytest.raises(DataError, match="did you mean fog"):
        split(samples, "class-shards", 4, **how, corruptions=["fogg", *chosen[1:]])


@quick
@given(st.integers(2, 10), st.integers(1, 3), st.booleans(), seeds)
def test_n_cls_gives_everybody_the_same_size_and_number_of_classes(
    clients: int, classes: int, truncate: bool, seed: int
) -> None:
    samples = pool([40] * 6, [25] * 6)
    splits = split(samples, "n-cls", clients, at=seed, classes=min(classes, 6), truncate=truncate)
    assert {len(part) for part in splits.train} == {240 // clients - truncate}
    assert within(samples, splits)
    for train, test in zip(splits.train, splits.test, strict=True):
        assert len(set(samples.labels[train])) <= classes
        assert set(samples.labels[test]) <= set(samples.labels[train])
        assert len(np.unique(test)) == len(test)


def test_n_cls_rounds_the_test_samples_of_a_client_up() -> None:
    splits = split(pool([40] * 6, [25] * 6), "n-cls", 7, classes=1)
    assert {len(part) for part in splits.test} == {22}  # of 150 / 7


@quick
@given(st.floats(0.1, 0.5), seeds)
def test_domain_gives_every_client_all_of_its_domain(share: float, seed: int) -> None:
    labels = np.sort(np.tile(np.arange(5), 80))
    groups = np.random.default_rng(1).permutation(np.repeat(np.arange(4), 100))
    samples = Pool(labels, {"all": range(400)}, 5, groups, ("a", "b", "c", "d"))
    splits = split(samples, "domain", 4, at=seed, test_share=share)
    assert once(splits)
    for group, parts in enumerate(zip(splits.train, splits.test, strict=True)):
        assert np.array_equal(np.sort(np.concatenate(parts)), np.flatnonzero(groups == group))
        train, test = (np.bincount(labels[part], minlength=5) for part in parts)
        assert test.tolist() == [int(share * n + 0.5) for n in train + test]


# -- all rules -------------------------------------------------------------------------------------


CODE = """
import json, sys
from tests.datasets.tiny import pool, split, recipe
from repfl.datasets.core.partition import partition
for rule, options in json.loads(sys.argv[1]).items():
    print(split(pool([60] * 10, [30] * 10), rule, 10, at=3, **options).digest)
"""


def test_the_same_seed_gives_the_same_splits_in_a_fresh_process() -> None:
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-c", CODE, json.dumps(EXAMPLES)]
    fresh = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    samples = pool([60] * 10, [30] * 10)
    here, other = (
        [split(samples, rule, 10, at=seed, **EXAMPLES[rule]).digest for rule in EXAMPLES]
        for seed in (3, 4)
    )
    assert fresh.split() == here
    assert not set(here) & set(other)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_shares_do_not_depend_on_the_order_of_the_input(rule: str) -> None:
    def pictures_of(order: np.ndarray) -> list[list[bytes]]:
        arrays = Arrays(images(900, (2, 2, 1))[order], (np.arange(900) % 10)[order])
        canonical = canonical_order(arrays)
        labels, pictures = arrays.labels[canonical], arrays.images[canonical]
        official = {"train": range(900), "test": range(900, 1800)}
        samples = Pool(np.concatenate([labels, labels]), official, 10)
        dealt = split(samples, rule, 10, **EXAMPLES[rule])
        return [[pictures[k % 900].tobytes() for k in part] for part in (*dealt.train, *dealt.test)]

    assert pictures_of(np.arange(900)) == pictures_of(np.random.default_rng(5).permutation(900))


def test_a_seed_of_the_partition_overrides_that_of_the_cell() -> None:
    samples = pool([60] * 10, [30] * 10)
    fixed = [split(samples, "iid", 10, at=at, seed=42).digest for at in (1, 2)]
    assert fixed == [split(samples, "iid", 10, at=42).digest] * 2


# -- requests that cannot be met -------------------------------------------------------------------

REFUSALS: list[tuple[str, int, dict[str, Any], str]] = [
    ("class-dirichlet", 100, {"alpha": 0.1}, "need more than the 400 there are"),
    ("class-dirichlet", 5, {"alpha": 0.1, "minimum": 2}, "no test sample"),
    ("class-dirichlet", 30, {"alpha": 0.01}, "draws gave all clients 10 samples"),
    ("pairwise-dirichlet", 5, {"alpha": 0.1}, "even number"),
    ("pairwise-dirichlet", 40, {"alpha": 0.1}, "too few to cut"),
    ("class-shards", 7, {"classes": 2}, "multiple of the 10 classes"),
    ("class-shards", 10, {"classes": 2, "train": 40}, "class 0 has 30 train samples, not 80"),
    ("class-shards", 10, {"classes": 2, "test_share": 0.2}, "leave it out"),
    ("class-shards", 3, {"client_classes": [[0, 1], [2, 3]]}, "3 clients need a list of classes"),
    ("class-shards", 2, {"client_classes": [[0, 1], [2]]}, "has [2]; give it 2 different classes"),
    ("class-shards", 2, {"client_classes": [[0, 1], [2, 2]]}, "client 1 has [2, 2]; give it 2"),
    ("class-shards", 2, {"client_classes": [[0, 1], [2, 10]]}, "has class 10; valid: 0 to 9"),
    ("class-shards", 2, {"client_classes": [[0, 1], [-1, 2]]}, "has class -1; valid: 0 to 9"),
    ("class-shards", 3, {"client_classes": [[0, 1], [1, 2], [0, 3]]}, "class 3 with 1"),
    ("class-shards", 2, {"client_classes": [[0, "1"], [2, 3]]}, "option client_classes.0.1"),
    ("class-shards", 2, {"client_classes": [0, 1]}, "option client_classes.0"),
    ("n-cls", 10, {"classes": 11}, "cannot hold 11 of 10 classes"),
    ("n-cls", 200, {"classes": 2}, "leave 1 per client"),
    ("iid", 101, {}, "need more than the 100 test samples"),
    ("shards", 60, {"per_client": 2}, "120 shards need more than the 100 test samples"),
    ("domain", 4, {}, "dataset with domains"),
    ("client-dirichlet", 3, {"alpha": 0.0}, "option alpha"),
    ("client-dirichlet", 3, {}, "option alpha"),
    ("client-dirichlet", 3, {"alpha": "0.1"}, "option alpha"),
    ("client-dirichlet", 3, {"alpah": 0.1}, "no option 'alpah': did you mean alpha"),
    ("class-dirichelt", 3, {"alpha": 0.1}, "did you mean class-dirichlet"),
    ("client-dirichlet", 3, {"alpha": 1e-300, "train": 30}, "not a number"),
    ("client-dirichlet", 3, {"alpha": 1.0, "train": 30, "test": 101}, "101 is more per client"),
]


@pytest.mark.parametrize(("rule", "clients", "options", "words"), REFUSALS)
def test_what_cannot_be_dealt_is_refused_in_one_line(
    rule: str, clients: int, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError) as caught:
        split(pool([30] * 10, [10] * 10), rule, clients, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def unseeded(parts: list[np.ndarray]) -> ClientSplits:
    mixed = np.random.default_rng().permutation(np.concatenate(parts[:2]))
    return ClientSplits.of(np.array_split(mixed, 2), parts[2:4])


@pytest.mark.parametrize(
    ("dealt", "words"),
    [
        (lambda parts: ClientSplits.of(parts, parts), "sample 0 is for training and"),
        (lambda parts: ClientSplits.of(parts[:2], parts[1:3]), "sample 5 is for training and"),
        (lambda parts: ClientSplits.of(parts[:2], parts[2:4], parts[2:4]), "testing and for val"),
        (lambda parts: ClientSplits.of(parts[:2], [parts[2], np.array([-4])]), "no sample -4;"),
        (unseeded, "other clients the second time: draw from generator"),
    ],
)
def test_a_rule_of_ones_own_that_deals_what_no_experiment_may_have_is_refused(
    dealt: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    iid = partitioners()["iid"]
    rule = iid._replace(function=lambda *_: dealt(np.array_split(np.arange(20), 4)))
    monkeypatch.setitem(partition._PARTITIONERS, "own", rule)
    with pytest.raises(DataError, match=words):
        split(pool([30] * 10, [10] * 10), "own", 2)


def test_a_dataset_without_official_splits_asks_for_a_share() -> None:
    for rule in ("iid", "shards", "class-shards"):
        with pytest.raises(DataError, match="set the partition option test_share"):
            split(pool([30] * 10), rule, 10, **EXAMPLES[rule])
    for rule in ("client-dirichlet", "n-cls"):
        with pytest.raises(DataError, match="does not have"):
            split(pool([30] * 10), rule, 5, **EXAMPLES[rule])
