"""One client per person, whose recordings are for training, testing or validation as a whole."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, ClientSplits, Facts, Pool, partitioner
from repfl.datasets.core.rng import generator
from repfl.datasets.core.splits import stratified_sample


@dataclass(frozen=True, config=OPTIONS)
class Persons:
    """Options."""

    train_share: float = Field(
        default=0.75, gt=0, lt=1, description="share of a class's recordings for training"
    )
    test_share: float = Field(
        default=0.25,
        gt=0,
        lt=1,
        description="share for testing; what is left of 1 is for validation",
    )
    train: int | None = Field(
        default=None, ge=1, description="limit of a client's training samples; None: all of them"
    )


def _check(facts: Facts, clients: int, options: Persons) -> None:
    if not facts.groups:
        raise DataError("the rule needs a dataset whose groups are persons, such as har")
    if clients != len(facts.groups):
        raise DataError(f"there is one client per person: set clients = {len(facts.groups)}")
    if options.train_share + options.test_share > 1:
        raise DataError("train_share + test_share is more than 1")


@partitioner("persons", Persons, check=_check)
def persons(pool: Pool, clients: int, seed: int, options: Persons) -> ClientSplits:
    """Give each client one person's samples; recordings are drawn for each purpose, per class.

    Windows of one recording overlap, so a recording is for one purpose alone. Recordings of several
    classes, such as the lines of a role, are drawn without regard to them.
    """
    parts: list[list[np.ndarray]] = [[], [], []]
    divided = _of_one_class(pool)
    for client in range(clients):
        own = np.flatnonzero(pool.groups == client)
        pieces: list[list[np.ndarray]] = [[], [], []]
        for label, members in enumerate(pool.by_class(own) if divided else [own]):
            rng = generator(seed, "partition/persons", client, label)
            for piece, index in zip(pieces, _drawn(pool, members, options, rng), strict=True):
                piece.append(index)
        for part, piece in zip(parts, pieces, strict=True):
            part.append(np.sort(np.concatenate(piece)))
        if options.train is not None:
            rng = generator(seed, "partition/persons/limit", client)
            parts[0][-1] = stratified_sample(parts[0][-1], pool.labels, options.train, rng)
    return ClientSplits.of(*parts)


def _of_one_class(pool: Pool) -> bool:
    """Return whether every recording is of one class, as samples without recordings are."""
    if pool.source_ids is None:
        return True
    pairs = np.unique(np.stack([pool.source_ids, pool.labels]), axis=1)
    return pairs.shape[1] == len(np.unique(pool.source_ids))


def _drawn(
    pool: Pool, members: np.ndarray, options: Persons, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Return the samples for training, testing and validation, whole recordings each."""
    ids = members if pool.source_ids is None else pool.source_ids[members]
    drawn = rng.permutation(np.unique(ids))
    train = max(1, int(options.train_share * len(drawn) + 0.5))
    kept = max(train, int((1 - options.test_share) * len(drawn) + 0.5))
    parts = (drawn[:train], drawn[kept:], drawn[train:kept])
    return tuple(members[np.isin(ids, part)] for part in parts)
