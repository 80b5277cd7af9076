"""FedPURIN's sampling: every client draws its own class distribution and then its own samples.

The clients' samples overlap, although the paper calls them disjoint. Train and test come from two
calls with the same seed; since the class distributions are drawn first, they are the same in both.
The legacy NumPy stream of the published code is replayed.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class ClientDirichlet:
    """Options."""

    alpha: float = Field(gt=0, description="concentration of a client's class distribution")
    train: int = Field(default=500, ge=1, description="train samples per client")
    test: int = Field(default=100, ge=1, description="test samples per client")


@rule("client-dirichlet", ClientDirichlet)
def client_dirichlet(pool: Pool, clients: int, seed: int, options: ClientDirichlet) -> Shares:
    """N clients of equal size, one Dirichlet class distribution each."""
    if not {"train", "test"} <= set(pool.splits):
        raise DataError(
            "the rule samples from official train and test splits, which this dataset does not have"
        )
    parts = {}
    for split, size in (("train", options.train), ("test", options.test)):
        classes = pool.of(pool.splits[split])
        for label, index in enumerate(classes):
            if not len(index):
                raise DataError(f"class {label} has no {split} sample")
        parts[split] = sample(classes, clients, size, options.alpha, seed)
    return Shares.of(parts["train"], parts["test"])


def sample(
    classes: list[np.ndarray], clients: int, size: int, alpha: float, seed: int
) -> list[np.ndarray]:
    """For every client `size` samples, rounded greedily in class order; the last class takes what
    is left.
    """
    stream = np.random.RandomState(seed)
    q = stream.dirichlet(np.repeat(alpha, len(classes)), clients)  # [N, C]
    if not np.isfinite(q).all():
        raise DataError(
            f"the Dirichlet draw is not a number at alpha={alpha:g}: use a larger alpha"
        )
    shares = []
    for row in q:
        picked, used = [], 0
        for label, index in enumerate(classes):
            wanted = int(size * row[label] + 0.5) if label < len(classes) - 1 else size - used
            wanted = min(max(wanted, 0), size - used)
            used += wanted
            picked.append(
                stream.choice(index, wanted, replace=wanted > len(index))
            )  # drawn even when empty: it moves the stream
        shares.append(np.concatenate(picked))
    return shares
