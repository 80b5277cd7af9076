"""Partitions by blocks of samples that are sorted by label: McMahan's and FedSelect's."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError, suggest
from repfl.datasets.core.partition import OPTIONS, ClientSplits, Facts, Pool, partitioner
from repfl.datasets.core.recipe import added_later
from repfl.datasets.core.rng import generator


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


def _check_shards(facts: Facts, clients: int, options: Shards) -> None:
    facts.check_test_share(options.test_share)


@partitioner("shards", Shards, check=_check_shards)
def shards(pool: Pool, clients: int, seed: int, options: Shards) -> ClientSplits:
    """McMahan's partition: sort by label, cut into N x s shards, give s to each client.

    Train and test are cut alike and use one permutation, so a client is tested on the classes it
    trains on.
    """
    count = clients * options.per_client
    order = generator(seed, "partition/shards").permutation(count)
    parts = []
    splits = pool.train_and_test(seed, options.test_share)
    for name, index in zip(("train", "test"), splits, strict=True):
        if len(index) < count:
            raise DataError(
                f"{count} shards need more than the {len(index)} {name} samples there are"
            )
        pieces = np.array_split(index[np.argsort(pool.labels[index], kind="stable")], count)
        rows = order.reshape(clients, options.per_client)
        parts.append([np.concatenate([pieces[k] for k in row]) for row in rows])
    return ClientSplits.of(*parts)


@dataclass(frozen=True, config=OPTIONS)
class ClassShards:
    """Options."""

    classes: int = Field(default=2, ge=1, description="blocks, and so at most classes, per client")
    train: int | None = Field(
        default=None, ge=1, description="train samples kept per block; None: all"
    )
    test: int | None = Field(
        default=None, ge=1, description="test samples kept per block; None: all"
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
        default=None, description="one corruption per client, for CIFAR-10-C; None: the first N"
    )
    client_classes: list[list[int]] | None = added_later(
        None, "the classes of each client, such as [[0, 1], [2, 3]]; None: drawn"
    )


def _check_class_shards(facts: Facts, clients: int, options: ClassShards) -> None:
    if options.client_classes is not None:
        _check_client_classes(options.client_classes, facts.classes, clients, options.classes)
    elif clients * options.classes % facts.classes:
        raise DataError(
            f"{clients} clients x {options.classes} blocks must be a multiple of the"
            f" {facts.classes} classes"
        )
    facts.check_test_share(options.test_share)
    if _has_corruptions(facts.groups):
        _corruptions(facts.groups, clients, options)


def _check_client_classes(
    client_classes: list[list[int]], classes: int, clients: int, per_client: int
) -> None:
    if len(client_classes) != clients:
        raise DataError(
            f"option client_classes: {clients} clients need a list of classes each, there are"
            f" {len(client_classes)}"
        )
    for client, row in enumerate(client_classes):
        if len(set(row)) != len(row) or len(row) != per_client:
            raise DataError(
                f"option client_classes: client {client} has {row}; give it {per_client} different"
                " classes, or change the option classes"
            )
        if wrong := [label for label in row if not 0 <= label < classes]:
            raise DataError(
                f"option client_classes: client {client} has class {wrong[0]}; valid: 0 to"
                f" {classes - 1}"
            )
    owners = Counter(label for row in client_classes for label in row)
    (most, many), (least, few) = (owners.most_common()[k] for k in (0, -1))
    if many != few:  # blocks of one size, which the published code's slices rely on
        raise DataError(
            f"option client_classes: class {most} is with {many} clients, class {least} with {few};"
            " give every class that is used to equally many"
        )


@partitioner("class-shards", ClassShards, check=_check_class_shards)
def class_shards(pool: Pool, clients: int, seed: int, options: ClassShards) -> ClientSplits:
    """FedSelect's partition: cut classes into blocks in dataset order, give a few to each client.

    A client gets `classes` blocks, and keeps the first `train` and the first `test` samples of
    each. It may draw the same class twice. It is tested on the classes it trains on. The Python and
    NumPy streams of the published code are replayed, including its second slice, which starts one
    sample late. With `client_classes` the code's stream draws only which block of a class a client
    gets.

    Our choices: a dataset without official splits is first cut per class by `test_share`. Of
    CIFAR-10-C, the photographs of the CIFAR-10 test set are partitioned, and each client sees its
    own through one corruption, so no photograph is in both a train and a test part.
    """
    if pool.source_ids is None or not _has_corruptions(pool.group_names):
        splits = pool.train_and_test(seed, options.test_share)
        return ClientSplits.of(*_draw_blocks(pool, splits, clients, seed, options))
    photos = _photographs(pool, pool.source_ids)
    splits = photos.train_and_test(seed, options.test_share, np.arange(len(photos.labels)))
    views = [
        _view(pool, pool.source_ids, name, options.severity)
        for name in _corruptions(pool.group_names, clients, options)
    ]
    parts = _draw_blocks(photos, splits, clients, seed, options)
    return ClientSplits.of(
        *([view[index] for view, index in zip(views, part, strict=True)] for part in parts)
    )


def _draw_blocks(
    pool: Pool, splits: tuple[np.ndarray, np.ndarray], clients: int, seed: int, options: ClassShards
) -> list[list[np.ndarray]]:
    """Give blocks of train and test samples to clients, by one list of classes."""
    client_labels = _client_labels(clients, pool.classes, seed, options)  # [N, s]
    counts = np.bincount(client_labels.ravel(), minlength=pool.classes)  # blocks per class
    stream = np.random.RandomState(seed)
    parts = []
    sizes = (options.train, options.test)
    for name, index, size in zip(("train", "test"), splits, sizes, strict=True):
        blocks = []
        for label, samples in enumerate(pool.by_class(index)):
            count = int(counts[label])
            needed = count * (size or 1)
            if len(samples) < needed:
                raise DataError(
                    f"class {label} has {len(samples)} {name} samples, not {needed}: use fewer"
                    " clients or smaller blocks"
                )
            blocks.append(_cut(samples, count))
        part = []
        for row in client_labels:
            drawn = [blocks[k].pop(stream.choice(len(blocks[k]), replace=False)) for k in row]
            part.append(_truncate(np.concatenate(drawn), options.classes, size))
        parts.append(part)
    return parts


def _client_labels(clients: int, classes: int, seed: int, options: ClassShards) -> np.ndarray:
    """Return the classes of the clients, as given or drawn  [N, s]."""
    if options.client_classes is not None:
        return np.array(options.client_classes)
    labels = list(range(classes)) * (clients * options.classes // classes)
    random.Random(seed).shuffle(labels)
    return np.array(labels).reshape(clients, options.classes)


def _cut(samples: np.ndarray, count: int) -> list[np.ndarray]:
    """Return consecutive blocks of equal size; the first blocks get one left-over sample each."""
    if not count:
        return []
    size = len(samples) // count
    blocks = list(samples[: size * count].reshape(count, size))
    for k, extra in enumerate(samples[size * count :]):
        blocks[k] = np.append(blocks[k], extra)
    return blocks


def _truncate(samples: np.ndarray, blocks: int, size: int | None) -> np.ndarray:
    """Return the first `size` samples of every block, by the stride of the published code."""
    if size is None:
        return samples
    stride = len(samples) // blocks + 1
    return np.concatenate([samples[k : k + size] for k in range(0, len(samples), stride)])


# -- CIFAR-10-C ------------------------------------------------------------------------------------


def _photographs(pool: Pool, source_ids: np.ndarray) -> Pool:
    """Return the distinct photographs behind a pool of corrupted ones."""
    sources, first = np.unique(source_ids, return_index=True)
    if not np.array_equal(sources, np.arange(len(sources))):
        raise DataError(
            "the photographs are not numbered from 0 without gaps: prepare the dataset again"
        )
    return Pool(pool.labels[first], {"all": range(len(first))}, pool.classes)


def _has_corruptions(groups: tuple[str, ...]) -> bool:
    return any("/" in name for name in groups)


def _corruptions(groups: tuple[str, ...], clients: int, options: ClassShards) -> list[str]:
    """Return one corruption per client."""
    known = list(dict.fromkeys(name.split("/")[0] for name in groups))
    chosen = options.corruptions if options.corruptions is not None else known[:clients]
    for name in chosen:
        if name not in known:
            raise DataError(f"unknown corruption {name!r}: {suggest(name, known)}")
    if len(chosen) != clients:
        raise DataError(f"{clients} clients need one corruption each, there are {len(chosen)}")
    return chosen


def _view(pool: Pool, source_ids: np.ndarray, corruption: str, severity: int) -> np.ndarray:
    """Return every photograph's index under one corruption  [photographs]."""
    group = pool.group_names.index(f"{corruption}/{severity}")
    index = np.flatnonzero(pool.groups == group)
    return index[np.argsort(source_ids[index])]
