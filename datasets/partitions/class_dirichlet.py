"""FedOBP's split: every class is cut over the clients by its own Dirichlet draw, until the smallest
client has enough.

All official splits are merged and re-split per client. The legacy NumPy stream of the published
code is replayed, so its partition with seed 42 comes out index for index.
"""

from __future__ import annotations

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ATTEMPTS, OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class ClassDirichlet:
    """Options."""

    alpha: float = Field(gt=0, description="concentration of a class over the clients")
    test_share: float = Field(
        default=0.25, gt=0, lt=1, description="share of a client's samples that is its test part"
    )
    minimum: int = Field(default=10, ge=1, description="samples that the smallest client must have")


@rule("class-dirichlet", ClassDirichlet)
def class_dirichlet(pool: Pool, clients: int, seed: int, options: ClassDirichlet) -> Shares:
    """A disjoint split of all samples over the clients."""
    stream = np.random.RandomState(seed)
    pieces, _ = draw(pool.of(pool.everything), clients, options, stream)
    train, test = [], []
    for index in pieces:
        stream.shuffle(index)
        cut = int(options.test_share * len(index))
        test.append(index[:cut])
        train.append(index[cut:])
    return Shares.of(train, test)


def draw(
    classes: list[np.ndarray], clients: int, options: ClassDirichlet, stream: np.random.RandomState
) -> tuple[list[np.ndarray], int]:
    """The clients' samples before the test part is cut off, and the number of draws it took."""
    samples = sum(len(index) for index in classes)
    if clients * options.minimum > samples:
        raise DataError(
            f"{clients} clients with at least {options.minimum} samples each need more than the"
            f" {samples:,} there are"
        )
    if int(options.test_share * options.minimum) == 0:
        raise DataError(
            f"a client of {options.minimum} samples would have no test sample: raise minimum or"
            " test_share"
        )
    for attempt in range(1, ATTEMPTS + 1):
        parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for index in classes:
            stream.shuffle(index)  # in place: the order persists into the next attempt
            weights = stream.dirichlet(np.repeat(options.alpha, clients))
            if not np.isfinite(weights).all():
                raise DataError(
                    f"the Dirichlet draw is not a number at alpha={options.alpha:g}: use a larger"
                    " alpha"
                )
            cuts = (np.cumsum(weights) * len(index)).astype(int)[:-1]
            for part, piece in zip(parts, np.split(index, cuts), strict=True):
                part.append(piece)
        pieces = [np.concatenate(part) for part in parts]
        if min(map(len, pieces)) >= options.minimum:
            return pieces, attempt
    raise DataError(
        f"none of {ATTEMPTS} draws gave all clients {options.minimum} samples: fewer clients, a"
        " larger alpha or a smaller minimum"
    )
