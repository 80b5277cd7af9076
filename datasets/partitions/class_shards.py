"""FedSelect's split: every class is cut into blocks in dataset order, and a client takes a few
blocks of its classes.

A client may draw the same class twice. Its test blocks are of the classes it trains on. The
published code's Python and NumPy streams are replayed. Its second slice, which starts one sample
late, is kept.

Two data sets need a choice of ours: one without official splits is first cut per class by
`test_share`; for CIFAR-10-C the rule deals photographs of the CIFAR-10 test set, and each client
sees its own through one corruption, so no photograph is in a train and a test part.
"""

from __future__ import annotations

import random

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError, nearest
from repfl.datasets.core.partition import OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class ClassShards:
    """Options."""

    classes: int = Field(default=2, ge=1, description="blocks, and so at most classes, per client")
    train: int | None = Field(
        default=None, ge=1, description="train samples kept per block; none: all"
    )
    test: int | None = Field(
        default=None, ge=1, description="test samples kept per block; none: all"
    )
    test_share: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="share of test samples, for datasets without an official split",
    )
    severity: int = Field(
        default=5, ge=1, le=5, description="severity of the corruptions, for CIFAR-10-C"
    )
    corruptions: list[str] | None = Field(
        default=None, description="one corruption per client, for CIFAR-10-C; none: the first N"
    )


@rule("class-shards", ClassShards)
def class_shards(pool: Pool, clients: int, seed: int, options: ClassShards) -> Shares:
    """N clients with a few classes each and no sample in common."""
    if clients * options.classes % pool.classes:
        raise DataError(
            f"{clients} clients x {options.classes} blocks must be a multiple of the {pool.classes}"
            " classes"
        )
    if pool.origins is None or not any("/" in name for name in pool.group_names):
        return Shares.of(
            *deal_blocks(
                pool, pool.train_and_test(seed, options.test_share), clients, seed, options
            )
        )
    photos = _photographs(pool)
    halves = photos.train_and_test(seed, options.test_share, np.arange(len(photos.labels)))
    views = [_view(pool, name, options.severity) for name in _corruptions(pool, clients, options)]
    parts = deal_blocks(photos, halves, clients, seed, options)
    return Shares.of(
        *([view[index] for view, index in zip(views, part, strict=True)] for part in parts)
    )


def deal_blocks(
    pool: Pool, halves: tuple[np.ndarray, np.ndarray], clients: int, seed: int, options: ClassShards
) -> list[list[np.ndarray]]:
    """Blocks of train and test samples, dealt by one list of classes."""
    count = clients * options.classes // pool.classes  # blocks per class
    wanted = list(range(pool.classes)) * count
    random.Random(seed).shuffle(wanted)
    held = np.array(wanted).reshape(clients, options.classes)  # [N, s]
    stream = np.random.RandomState(seed)
    parts = []
    for name, index, size in zip(
        ("train", "test"), halves, (options.train, options.test), strict=True
    ):
        blocks = []
        for label, samples in enumerate(pool.of(index)):
            least = count * (size or 1)
            if len(samples) < least:
                raise DataError(
                    f"class {label} has {len(samples)} {name} samples, not {least}: use fewer"
                    " clients or smaller blocks"
                )
            blocks.append(cut(samples, count))
        shares = []
        for labels in held:
            taken = [
                blocks[label].pop(stream.choice(len(blocks[label]), replace=False))
                for label in labels
            ]
            shares.append(keep(np.concatenate(taken), options.classes, size))
        parts.append(shares)
    return parts


def cut(samples: np.ndarray, count: int) -> list[np.ndarray]:
    """Consecutive blocks of equal size; what is left over goes to the first blocks, one sample
    each.
    """
    size = len(samples) // count
    blocks = list(samples[: size * count].reshape(count, size))
    for k, extra in enumerate(samples[size * count :]):
        blocks[k] = np.append(blocks[k], extra)
    return blocks


def keep(samples: np.ndarray, blocks: int, size: int | None) -> np.ndarray:
    """The first `size` samples of every block, by the stride of the published code."""
    if size is None:
        return samples
    stride = len(samples) // blocks + 1
    return np.concatenate(
        [samples[start : start + size] for start in range(0, len(samples), stride)]
    )


def _photographs(pool: Pool) -> Pool:
    """The distinct photographs behind a pool of corrupted ones."""
    assert pool.origins is not None
    origins, first = np.unique(pool.origins, return_index=True)
    if not np.array_equal(origins, np.arange(len(origins))):
        raise DataError(
            "the photographs are not numbered from 0 without gaps: prepare the dataset again"
        )
    return Pool(pool.labels[first], {"all": range(len(first))}, pool.classes)


def _corruptions(pool: Pool, clients: int, options: ClassShards) -> list[str]:
    """One corruption per client."""
    known = list(dict.fromkeys(name.split("/")[0] for name in pool.group_names))
    chosen = options.corruptions if options.corruptions is not None else known[:clients]
    for name in chosen:
        if name not in known:
            raise DataError(f"unknown corruption {name!r}: {nearest(name, known)}")
    if len(chosen) != clients:
        raise DataError(f"{clients} clients need one corruption each, there are {len(chosen)}")
    return chosen


def _view(pool: Pool, corruption: str, severity: int) -> np.ndarray:
    """For every photograph its index under one corruption  [photographs]."""
    group = pool.group_names.index(f"{corruption}/{severity}")
    index = np.flatnonzero(pool.groups == group)
    assert pool.origins is not None
    return index[np.argsort(pool.origins[index])]
