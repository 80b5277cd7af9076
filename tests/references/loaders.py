"""Our mini-batches as the data loaders that published code iterates over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
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


class Exact(Tensor):
    """Images that stay doubles, and here, where published code asks for floats and a GPU."""

    def float(self, *_: Any, **__: Any) -> Tensor:
        return self.as_subclass(Tensor)

    def to(self, *_: Any, **__: Any) -> Tensor:
        return self


def exact(batches: Batches) -> Batches:
    return [(x.as_subclass(Exact), y) for x, y in batches]


def rounds(run: Run, count: int) -> Iterator[int]:
    """The rounds of a run that has had its first, each when it is over."""
    for round_ in range(1, count + 1):
        if round_ > 1:
            run.step()
        yield round_


def epochs(fed: Federation, client: int, round_: int, stream: str = "batches") -> Passes:
    """A client's data loader for a round, whose every pass is the next epoch."""
    passes = (plain.batches(fed, client, round_, 1, first=e, stream=stream) for e in count())
    return Passes(passes, len(plain.batches(fed, client, round_, 1, stream=stream)))


def entire(fed: Federation, client: int, split: str = "train") -> Batches:
    """All of a client's samples at once."""
    places = getattr(fed.data, split)[client]
    return [(fed.data.inputs(places), fed.data.labels[places])]
