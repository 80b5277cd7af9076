"""What is set apart from a partition: validation samples of every client, and clients that join
late.

Both are drawn by keyed generators after the rule has dealt, so no rule knows of them, and a
published partition is the same with and without.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.rng import generator

if TYPE_CHECKING:
    from repfl.datasets.core.partition import Shares
    from repfl.datasets.core.recipe import Newcomers

OPEN, TRAIN, VAL = range(3)


def with_validation(shares: Shares, labels: np.ndarray, share: float, seed: int) -> Shares:
    """Every client gives that share of its distinct training samples, at least one, to its
    validation part; the test part stays.

    A sample validates for everybody who holds it or trains for everybody: some rules deal one
    sample to several clients, and nobody may be validated on what another one trained on. Where
    others have decided about a sample already, a client's share is only about the one asked for.
    """
    use, train, val = np.full(len(labels), OPEN), [], []
    for client, held in enumerate(shares.train):
        distinct = np.unique(held)
        undecided = distinct[use[distinct] == OPEN]
        wanted = max(1, int(share * len(distinct) + 0.5)) - int((use[distinct] == VAL).sum())
        use[undecided] = TRAIN
        rng = generator(seed, "partition/validation", client)
        use[evenly(undecided, labels, max(0, wanted), rng)] = VAL
        train.append(held[use[held] == TRAIN])
        val.append(distinct[use[distinct] == VAL])
        if not len(train[-1]) or not len(val[-1]):
            raise DataError(
                f"client {client} has {len(distinct)} distinct training samples, too few to set"
                f" val_share = {share:g} of them apart: use fewer clients"
            )
    return replace(shares, train=train, val=val)


def evenly(
    index: np.ndarray, labels: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """So many of these samples, or all where there are fewer; every one has the same chance, and
    every class its part, to within one sample.

    Systematic sampling: shuffled within classes, class after class, every (n / count)-th sample is
    taken from a random start.
    """
    if count >= len(index):
        return index
    line = rng.permutation(index)
    line = line[np.argsort(labels[line], kind="stable")]
    places = (np.arange(count) + rng.random()) * len(line) / max(count, 1)
    return np.sort(line[places.astype(np.int64)])


def residents_and_newcomers(
    shares: Shares, labels: np.ndarray, newcomers: Newcomers, seed: int
) -> tuple[Shares, Shares]:
    """The clients that take part, and those that join late with no more than some of their
    training samples; both keep the order of the partition.

    Who comes late depends on the cell's seed alone, also where the partition has one of its own.
    """
    clients, count = len(shares.train), newcomers.samples
    drawn = generator(seed, "newcomers").choice(clients, newcomers.count(clients), replace=False)
    few = [
        evenly(np.unique(held), labels, count, generator(seed, "newcomers/samples", client))
        for client, held in enumerate(shares.train)
    ]
    late = set(drawn.tolist())
    stay = [client for client in range(clients) if client not in late]
    return _of(shares, stay), _of(replace(shares, train=few), sorted(late))


def _of(shares: Shares, clients: list[int]) -> Shares:
    """Some of the clients."""
    parts = {name: getattr(shares, name) for name in ("train", "test", "val")}
    return replace(shares, **{k: [part[client] for client in clients] for k, part in parts.items()})
