"""My partition: clients of unequal size. Each has `ratio` times the samples of the one before."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, ClientSplits, Pool, partitioner
from repfl.datasets.core.rng import generator


@dataclass(frozen=True, config=OPTIONS)
class MyOptions:
    """Options; each is checked when a cell is planned."""

    ratio: float = Field(default=0.7, gt=0, le=1, description="size of a client by the one before")
    test_share: float | None = Field(
        default=None, gt=0, lt=1, description="for datasets without an official split"
    )


@partitioner("my-partition", MyOptions)
def my_partition(pool: Pool, clients: int, seed: int, options: MyOptions) -> ClientSplits:
    """Shuffle train and test samples and cut them into parts of geometric sizes."""
    sizes = options.ratio ** np.arange(clients)
    ends = np.cumsum(sizes / sizes.sum())[:-1]
    parts = []
    splits = pool.train_and_test(seed, options.test_share)
    for position, index in enumerate(splits):
        if len(index) * sizes[-1] / sizes.sum() < 1:
            raise DataError("the last client would have no sample: use fewer clients")
        order = generator(seed, "partition/my-partition", position).permutation(index)
        parts.append(np.split(order, (ends * len(index)).round().astype(int)))
    return ClientSplits.of(*parts)
