"""IID partitions."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, ClientSplits, Facts, Pool, partitioner
from repfl.datasets.core.rng import generator


@dataclass(frozen=True, config=OPTIONS)
class Iid:
    """Options."""

    test_share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of test samples, for datasets without an official split",
    )


def _check(facts: Facts, clients: int, options: Iid) -> None:
    facts.check_test_share(options.test_share)


@partitioner("iid", Iid, check=_check)
def iid(pool: Pool, clients: int, seed: int, options: Iid) -> ClientSplits:
    """Shuffle each split and cut it into parts of equal size, to within one sample."""
    parts: list[list[np.ndarray]] = []
    splits = pool.train_and_test(seed, options.test_share)
    for name, index in zip(("train", "test"), splits, strict=True):
        if len(index) < clients:
            raise DataError(
                f"{clients} clients need more than the {len(index)} {name} samples there are"
            )
        rng = generator(seed, "partition/iid", len(parts))
        parts.append(np.array_split(rng.permutation(index), clients))
    return ClientSplits.of(*parts)
