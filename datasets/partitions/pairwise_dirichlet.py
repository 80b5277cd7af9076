"""Star-PFL's split: clients come in pairs, and each pair jointly holds an IID part of all samples.

Only within a pair are the classes skewed, so heterogeneity is mild. All official splits are pooled.
The legacy NumPy stream of the published code is replayed.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ATTEMPTS, OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class PairwiseDirichlet:
    """Options."""

    alpha: float = Field(
        gt=0, description="concentration of a class over the two clients of a pair"
    )
    train_share: float = Field(
        default=0.6, gt=0, lt=1, description="share of a client's class that comes first: train"
    )
    test_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="share that comes second: test; the rest is for validation",
    )


@rule("pairwise-dirichlet", PairwiseDirichlet)
def pairwise_dirichlet(pool: Pool, clients: int, seed: int, options: PairwiseDirichlet) -> Shares:
    """N clients of exactly equal size; up to N - 1 samples are dropped."""
    samples = len(pool.labels)
    step = int(1 / clients * samples)
    if clients % 2:
        raise DataError("clients come in pairs: use an even number")
    if step < 2 * pool.classes:
        raise DataError(
            f"{samples:,} samples leave {step} per client, too few to cut {pool.classes} classes in"
            " three: use fewer clients"
        )
    stream = np.random.RandomState(seed)
    rows = np.arange(samples)
    stream.shuffle(rows)
    size = int(2 / clients * samples)
    bounds = [k * size for k in range(clients // 2)] + [samples]
    dealt: list[np.ndarray] = []
    for start, stop in pairwise(bounds):
        dealt += split_pair(pool, rows[start:stop], options.alpha, stream)
    line = np.concatenate(dealt)
    return cut_by_class(pool, [line[k * step : (k + 1) * step] for k in range(clients)], options)


def split_pair(
    pool: Pool, rows: np.ndarray, alpha: float, stream: np.random.RandomState
) -> list[np.ndarray]:
    """Deal one group of samples to two clients, repeated until the smaller has half of its fair
    share.
    """
    fair = len(rows) / 2
    labels = pool.labels[rows]
    for _ in range(ATTEMPTS):
        pair: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        sizes = np.zeros(2, dtype=np.int64)
        for label in range(pool.classes):
            index = rows[labels == label]
            weights = stream.dirichlet(np.repeat(alpha, 2)) * (
                sizes < fair
            )  # who has a fair share gets no more
            total = weights.sum()
            cut = (
                int(weights[0] / total * len(index)) if total > 0 else 0
            )  # no weight left, also by underflow: all to the second
            pair[0].append(index[:cut])
            pair[1].append(index[cut:])
            sizes += (cut, len(index) - cut)
        if sizes.min() >= int(0.5 * fair):
            return [np.concatenate(side) for side in pair]
    raise DataError(
        f"no draw of {ATTEMPTS} split a pair of clients evenly enough: use a larger alpha"
    )


def cut_by_class(pool: Pool, clients: list[np.ndarray], options: PairwiseDirichlet) -> Shares:
    """Within client and class, in dataset order: first train, then test, then validation."""
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for rows in clients:
        pieces: tuple[list[np.ndarray], ...] = ([], [], [])
        for index in pool.of(rows):
            first = int(options.train_share * len(index))
            second = first + int(options.test_share * len(index))
            for piece, part in zip(pieces, np.split(index, [first, second]), strict=True):
                piece.append(part)
        for part_list, piece in zip(parts, pieces, strict=True):
            part_list.append(np.concatenate(piece))
    return Shares.of(*parts)
