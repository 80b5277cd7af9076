"""The real data, if prepared: content, speed of opening, and the partition of FedOBP's authors."""

from __future__ import annotations

import pytest

from repfl.datasets.core import prepare
from repfl.datasets.core.cache import Prepared, open_dataset

PUBLISHED = ("cifar10", "cifar100", "mnist", "fashion_mnist")


def opened(name: str) -> Prepared:
    if not prepare.is_prepared(name):
        pytest.skip(f"{name} is not prepared under the data root")
    return open_dataset(name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_content_is_what_was_published(name: str) -> None:
    opened(name)
    assert all(verdict.intact and verdict.published for verdict in prepare.verify(name))
