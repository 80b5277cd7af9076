"""Partitions for users' own experiments: IID, and label-sorted shards."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, Pool, Shares, rule
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


@dataclass(frozen=True, config=OPTIONS)
class Shards:
    """Options."""

    per_client: int = Field(default=2, ge=1, description="shards per client")
    test_share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of test samples, for datasets without an official split",
    )


@rule("iid", Iid)
def iid(pool: Pool, clients: int, seed: int, options: Iid) -> Shares:
    """Every split shuffled and dealt in parts of equal size (to within one sample), without
    overlap.
    """
    parts: list[list[np.ndarray]] = []
    for name, index in zip(
        ("train", "test"), pool.train_and_test(seed, options.test_share), strict=True
    ):
        if len(index) < clients:
            raise DataError(
                f"{clients} clients need more than the {len(index)} {name} samples there are"
            )
        parts.append(
            np.array_split(generator(seed, "partition/iid", len(parts)).permutation(index), clients)
        )
    return Shares.of(*parts)


@rule("shards", Shards)
def shards(pool: Pool, clients: int, seed: int, options: Shards) -> Shares:
    """McMahan's pathological split: samples sorted by label, cut into N x s shards, s dealt to each
    client, without overlap.

    Train and test are cut alike and dealt by one permutation, so a client is tested on the classes
    it trains on.
    """
    count = clients * options.per_client
    order = (
        generator(seed, "partition/shards").permutation(count).reshape(clients, options.per_client)
    )
    parts = []
    for name, index in zip(
        ("train", "test"), pool.train_and_test(seed, options.test_share), strict=True
    ):
        if len(index) < count:
            raise DataError(
                f"{count} shards need more than the {len(index)} {name} samples there are"
            )
        pieces = np.array_split(index[np.argsort(pool.labels[index], kind="stable")], count)
        parts.append([np.concatenate([pieces[k] for k in row]) for row in order])
    return Shares.of(*parts)
