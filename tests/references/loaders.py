"""Our mini-batches as the data loaders that published code iterates over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain

Batches = list[tuple[Tensor, Tensor]]


class Passes:
    """A data loader whose every pass has batches of its own."""

    def __init__(self, passes: Iterable[Batches], size: int = 0) -> None:
        self.passes, self.size = iter(passes), size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(next(self.passes))


def epochs(fed: Federation, client: int, round_: int, stream: str = "batches") -> Passes:
    """A client's data loader for a round, whose every pass is the next epoch."""
    passes = (plain.batches(fed, client, round_, 1, first=e, stream=stream) for e in count())
    return Passes(passes, len(plain.batches(fed, client, round_, 1, stream=stream)))
