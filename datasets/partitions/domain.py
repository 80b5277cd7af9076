"""One client per domain, as in FedSelect's experiments on Office-Home, or per person."""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, ClientSplits, Facts, Pool, partitioner


@dataclass(frozen=True, config=OPTIONS)
class Domain:
    """Options."""

    test_share: float = Field(
        default=0.2, gt=0, lt=1, description="share of test samples or sources, per class"
    )


def _check(facts: Facts, clients: int, options: Domain) -> None:
    if not facts.groups:
        raise DataError(
            "the rule needs a dataset with domains, such as office_home, or persons; own data have"
            " them if they are described with groups=(...)"
        )
    if clients != len(facts.groups):
        raise DataError(f"there is one client per domain: set clients = {len(facts.groups)}")


@partitioner("domain", Domain, check=_check)
def domain(pool: Pool, clients: int, seed: int, options: Domain) -> ClientSplits:
    """Give each client all samples of one domain or person; a share of each class is for testing.

    The share is drawn at random, of whole sources where samples have them, such as recordings.
    """
    parts = [
        pool.train_and_test(seed, options.test_share, np.flatnonzero(pool.groups == group))
        for group in range(clients)
    ]
    return ClientSplits.of([train for train, _ in parts], [test for _, test in parts])
