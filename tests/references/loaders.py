"""Our mini-batches as the data loaders that published code iterates over."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain


class Passes:
    """A client's data loader for a round, whose every pass is the next epoch."""

    def __init__(self, fed: Federation, client: int, round_: int, stream: str = "batches") -> None:
        self.passes = (
            plain.batches(fed, client, round_, 1, first=epoch, stream=stream) for epoch in count()
        )

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(next(self.passes))
