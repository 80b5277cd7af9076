from __future__ import annotations

from hashlib import sha256

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from repfl.datasets.core.canonical import Arrays, canonical_order, fingerprint
from tests.datasets.tiny import images


def toy(n: int = 40) -> Arrays:
    return Arrays(images(n, (4, 4, 3)), np.arange(n) % 7)


@given(st.permutations(range(40)))
def test_a_fingerprint_does_not_depend_on_the_order_of_the_input(shuffle: list[int]) -> None:
    one = toy()
    other = Arrays(one.images[shuffle], one.labels[shuffle])
    marks = {
        fingerprint(arrays.images, arrays.labels, canonical_order(arrays))
        for arrays in (one, other)
    }
    assert len(marks) == 1


def test_the_order_is_by_label_and_then_by_the_hash_of_the_image() -> None:
    arrays = toy()
    order = canonical_order(arrays)
    keys = [(int(arrays.labels[k]), sha256(arrays.images[k].tobytes()).hexdigest()) for k in order]
    assert keys == sorted(keys)


def test_the_fingerprint_is_the_hash_of_all_images_and_then_all_labels() -> None:
    arrays = toy()
    order = canonical_order(arrays)
    expected = sha256(
        arrays.images[order].tobytes() + arrays.labels[order].astype("<i8").tobytes()
    ).hexdigest()
    assert fingerprint(arrays.images, arrays.labels, order) == expected


def test_equal_images_of_different_groups_have_a_fixed_order() -> None:
    same = np.zeros((6, 2, 2, 1), np.uint8)
    groups, origins = np.array([2, 0, 1, 2, 0, 1]), np.array([1, 1, 1, 0, 0, 0])
    order = canonical_order(Arrays(same, np.zeros(6, np.int64), groups, origins))
    assert groups[order].tolist() == [0, 0, 1, 1, 2, 2]
    assert origins[order].tolist() == [0, 1] * 3
