"""Validation samples, public samples and unseen clients, cut out of a finished partition.

All are drawn after the partitioner has finished, so a published partition is the same with and
without them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.rng import generator

if TYPE_CHECKING:
    from collections.abc import Sequence

    from repfl.datasets.core.recipe import Newcomers

UNDECIDED, TRAIN, VAL = range(3)


@dataclass(frozen=True)
class ClientSplits:
    """The indices of every client's train, test and validation samples."""

    train: list[np.ndarray]  # N x int64 [n_i]
    test: list[np.ndarray]
    val: list[np.ndarray]
    public: np.ndarray | None = None
    """Samples of no client, which all may see without labels."""

    @classmethod
    def of(
        cls, train: Sequence[Any], test: Sequence[Any], val: Sequence[Any] | None = None
    ) -> ClientSplits:
        """Return the splits of anything array-like; without `val`, validation parts are empty."""
        trains, tests, vals = (
            [np.asarray(index, dtype=np.int64) for index in part]
            for part in (train, test, val or [[]] * len(train))
        )
        return cls(trains, tests, vals)

    def take(self, clients: Sequence[int]) -> ClientSplits:
        """Return the splits of some clients."""
        parts = (self.train, self.test, self.val)
        train, test, val = ([part[client] for client in clients] for part in parts)
        return ClientSplits(train, test, val, self.public)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all indices."""
        digest = sha256()
        for part in (self.train, self.test, self.val):
            for index in part:
                digest.update(np.int64(len(index)).astype("<i8").tobytes())
                digest.update(index.astype("<i8").tobytes())
        return digest.hexdigest()


def hold_out_validation(
    splits: ClientSplits,
    labels: np.ndarray,
    share: float,
    seed: int,
    source_ids: np.ndarray | None = None,
) -> ClientSplits:
    """Move a share of every client's distinct train samples, at least one, to its validation part.

    Some partitioners give one sample to several clients. A sample is for validation at all of them
    or for training at all of them; a client's share counts what earlier clients have decided. Of
    samples with sources, whole sources are moved.
    """
    use, train, val = np.full(len(labels), UNDECIDED), [], []
    for client, index in enumerate(splits.train):
        distinct = np.unique(index)
        undecided = distinct[use[distinct] == UNDECIDED]
        count = max(1, int(share * len(distinct) + 0.5)) - int((use[distinct] == VAL).sum())
        use[undecided] = TRAIN
        rng = generator(seed, "partition/validation", client)
        if source_ids is None:
            use[stratified_sample(undecided, labels, max(0, count), rng)] = VAL
        else:
            use[whole_sources(undecided, labels, source_ids, share, rng)] = VAL
        train.append(index[use[index] == TRAIN])
        val.append(distinct[use[distinct] == VAL])
        if not len(train[-1]) or not len(val[-1]):
            raise DataError(
                f"client {client} has {len(distinct)} distinct training samples, too few for"
                f" val_share = {share:g}: use fewer clients"
            )
    return replace(splits, train=train, val=val)


def hold_out_public(
    splits: ClientSplits, samples: int, seed: int, source_ids: np.ndarray | None = None
) -> ClientSplits:
    """Take public samples away from the training samples of all clients, at random.

    Of samples with sources, whole sources are taken until there are enough.
    """
    held = np.unique(np.concatenate(splits.train))
    sources = held if source_ids is None else source_ids[held]
    distinct, sizes = np.unique(sources, return_counts=True)
    order = generator(seed, "partition/public").permutation(len(distinct))
    taken = order[: int(np.searchsorted(sizes[order].cumsum(), samples)) + 1]
    public = held[np.isin(sources, distinct[taken])]
    train = [index[~np.isin(index, public)] for index in splits.train]
    if poor := [client for client, index in enumerate(train) if not len(index)]:
        raise DataError(
            f"public.samples = {samples} leaves client {poor[0]} without training samples: hold out"
            " fewer"
        )
    return replace(splits, train=train, public=public)


def stratified_sample(
    index: np.ndarray, labels: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw `count` samples, or all if there are fewer, with equal chances.

    Every class gets its part to within one sample. Systematic sampling: shuffle within classes,
    then take every (n / count)-th sample from a random start.
    """
    if count >= len(index):
        return index
    line = rng.permutation(index)
    line = line[np.argsort(labels[line], kind="stable")]
    positions = (np.arange(count) + rng.random()) * len(line) / max(count, 1)
    return np.sort(line[positions.astype(np.int64)])


def whole_sources(
    index: np.ndarray,
    labels: np.ndarray,
    source_ids: np.ndarray,
    share: float,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw a share of the sources of every class, and return all their samples."""
    drawn = []
    for label in np.unique(labels[index]):
        sources = np.unique(source_ids[index[labels[index] == label]])
        drawn.append(rng.permutation(sources)[: int(share * len(sources) + 0.5)])
    return index[np.isin(source_ids[index], np.concatenate(drawn))] if drawn else index


def split_off_newcomers(
    splits: ClientSplits, labels: np.ndarray, newcomers: Newcomers, seed: int
) -> tuple[ClientSplits, ClientSplits]:
    """Return the clients that train from the start, and the unseen ones with few train samples.

    The draw depends on the cell's seed alone, also if the partition has one of its own.
    """
    clients, size = len(splits.train), newcomers.samples
    drawn = generator(seed, "newcomers").choice(clients, newcomers.count(clients), replace=False)
    few = [
        stratified_sample(
            np.unique(index), labels, size, generator(seed, "newcomers/samples", client)
        )
        for client, index in enumerate(splits.train)
    ]
    unseen = sorted(drawn.tolist())
    residents = [client for client in range(clients) if client not in unseen]
    return splits.take(residents), replace(splits, train=few).take(unseen)
