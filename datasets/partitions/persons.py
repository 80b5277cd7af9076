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

    Windows of one recording overlap, so a recording is for one purpose alone. A class with too few
    recordings for a share gives it none, or at least one if it has any left for training.
    """
    parts: list[list[np.ndarray]] = [[], [], []]
    for client in range(clients):
        held: list[list[np.ndarray]] = [[], [], []]
        for label, members in enumerate(pool.by_class(np.flatnonzero(pool.groups == client))):
            ids = members if pool.source_ids is None else pool.source_ids[members]
            drawn = generator(seed, "partition/persons", client, label).permutation(np.unique(ids))
            train = max(1, int(options.train_share * len(drawn) + 0.5))
            test = len(drawn) - int((1 - options.test_share) * len(drawn) + 0.5)
            cuts = [train, max(train, len(drawn) - test)]
            train_ids, val_ids, test_ids = np.split(drawn, cuts)
            for part, chosen in zip(held, (train_ids, test_ids, val_ids), strict=True):
                part.append(members[np.isin(ids, chosen)])
        for client_parts, pieces in zip(parts, held, strict=True):
            client_parts.append(np.sort(np.concatenate(pieces)))
        if options.train is not None:
            rng = generator(seed, "partition/persons/limit", client)
            parts[0][-1] = stratified_sample(parts[0][-1], pool.labels, options.train, rng)
    return ClientSplits.of(*parts)
