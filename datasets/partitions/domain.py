"""One client per domain, as FedSelect uses Office-Home; within a domain and class a random share is
for testing.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class Domain:
    """Options."""

    test_share: float = Field(
        default=0.2, gt=0, lt=1, description="share of test samples, per domain and class"
    )


@rule("domain", Domain)
def domain(pool: Pool, clients: int, seed: int, options: Domain) -> Shares:
    """As many clients as domains, each with all samples of its own."""
    if pool.groups is None:
        raise DataError("the rule needs a dataset with domains, such as office_home")
    if clients != len(pool.group_names):
        raise DataError(f"there is one client per domain: set clients = {len(pool.group_names)}")
    halves = [
        pool.train_and_test(seed, options.test_share, np.flatnonzero(pool.groups == group))
        for group in range(clients)
    ]
    return Shares.of([train for train, _ in halves], [test for _, test in halves])
