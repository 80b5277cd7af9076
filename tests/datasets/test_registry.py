from __future__ import annotations

import re

import pytest

from repfl.datasets.core import registry


@pytest.mark.parametrize("name", registry.names())
def test_a_description_is_complete_and_agrees_with_itself(name: str) -> None:
    dataset = registry.get(name)
    assert dataset.homepage.startswith("http")
    assert dataset.licence
    assert dataset.citation
    assert len(set(dataset.classes)) == len(dataset.classes)
    for edition in dataset.editions:
        assert list(edition.sizes) == [split for split in registry.SPLITS if split in edition.sizes]
        for split, counts in (edition.counts or {}).items():
            assert sum(counts) == edition.sizes[split]
            assert len(counts) == len(dataset.classes)
        if edition.totals:
            assert sum(edition.totals) == sum(edition.sizes.values())
    for norm in dataset.norms.values():
        assert len(norm.mean) == len(norm.std) == dataset.shape[2]


@pytest.mark.parametrize("name", registry.names())
def test_a_dataset_is_embedded_or_fetched_with_checksums_or_says_what_to_do_by_hand(
    name: str,
) -> None:
    dataset = registry.get(name)
    assert dataset.embedded + bool(dataset.files()) + bool(dataset.manual) == 1
    for file in dataset.files():
        assert re.fullmatch(r"md5:[0-9a-f]{32}|sha256:[0-9a-f]{64}", file.checksum)
        assert all(url.startswith(("http://", "https://")) for url in file.urls)
    if dataset.manual:
        assert f"repfl data import {name} --from" in dataset.manual


def test_the_sizes_are_those_of_the_papers() -> None:
    totals = {name: sum(registry.get(name).splits.values()) for name in registry.names()}
    published = {"emnist_byclass": 814_255, "svhn": 99_289, "office_home": 15_588}
    published |= {"organamnist": 58_850, "organcmnist": 23_660, "organsmnist": 25_221}
    assert totals | published | {"cifar10c": 15 * 5 * 10_000} == totals
