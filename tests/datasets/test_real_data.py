"""The real data, if they are prepared."""

from __future__ import annotations

import pytest

from repfl.datasets.core.files import prepare


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "mnist", "fashion_mnist"])
def test_the_content_is_what_was_published(name: str) -> None:
    if not prepare.is_prepared(name):
        pytest.skip(f"{name} is not prepared under the data root")
    assert all(verdict.intact and verdict.published for verdict in prepare.verify(name))
