"""Dirichlet partitions: FedOBP's, FedPURIN's and Star-PFL's.

Each replays the legacy NumPy stream of the published code, so it equals the published partition
index for index.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import (
    MAX_ATTEMPTS,
    OPTIONS,
    ClientSplits,
    Facts,
    Pool,
    partitioner,
)

# -- FedOBP ----------------------------------------------------------------------------------------


@dataclass(frozen=True, config=OPTIONS)
class ClassDirichlet:
    """Options."""

    alpha: float = Field(gt=0, description="concentration of a class over the clients")
    test_share: float = Field(
        default=0.25, gt=0, lt=1, description="share of a client's samples that is its test part"
    )
    minimum: int = Field(default=10, ge=1, description="samples that the smallest client must have")


def _check_class_dirichlet(facts: Facts, clients: int, options: ClassDirichlet) -> None:
    samples = sum(facts.splits.values())
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


@partitioner("class-dirichlet", ClassDirichlet, check=_check_class_dirichlet)
def class_dirichlet(pool: Pool, clients: int, seed: int, options: ClassDirichlet) -> ClientSplits:
    """FedOBP's partition: cut every class over the clients by its own Dirichlet draw.

    All official splits are merged. Each class is shuffled and cut into consecutive pieces, one per
    client, whose shares are a draw from Dir(`alpha`). If any client has fewer than `minimum`
    samples, all classes are drawn again, so no sample is dropped and no client is left out. Then
    each client's samples are shuffled; the first `test_share` of them, rounded down, are its test
    part, the others are for training.
    """
    stream = np.random.RandomState(seed)
    pieces, _ = draw_classes(pool.by_class(pool.all_samples), clients, options, stream)
    train, test = [], []
    for index in pieces:
        stream.shuffle(index)
        cut = int(options.test_share * len(index))
        test.append(index[:cut])
        train.append(index[cut:])
    return ClientSplits.of(train, test)


def draw_classes(
    by_class: list[np.ndarray], clients: int, options: ClassDirichlet, stream: np.random.RandomState
) -> tuple[list[np.ndarray], int]:
    """Return the clients' samples before the test part is cut off, and the number of draws."""
    for attempt in range(1, MAX_ATTEMPTS + 1):
        parts: list[list[np.ndarray]] = [[] for _ in range(clients)]
        for index in by_class:
            # in place: the order persists into the next attempt
            stream.shuffle(index)
            weights = _dirichlet(stream, options.alpha, clients)
            cuts = (np.cumsum(weights) * len(index)).astype(int)[:-1]
            for part, piece in zip(parts, np.split(index, cuts), strict=True):
                part.append(piece)
        pieces = [np.concatenate(part) for part in parts]
        if min(map(len, pieces)) >= options.minimum:
            return pieces, attempt
    raise DataError(
        f"none of {MAX_ATTEMPTS} draws gave all clients {options.minimum} samples: fewer clients, a"
        " larger alpha or a smaller minimum"
    )


def _dirichlet(
    stream: np.random.RandomState, alpha: float, categories: int, draws: int | None = None
) -> np.ndarray:
    weights = stream.dirichlet(np.repeat(alpha, categories), draws)
    if not np.isfinite(weights).all():
        raise DataError(
            f"the Dirichlet draw is not a number at alpha={alpha:g}: use a larger alpha"
        )
    return weights


# -- FedPURIN --------------------------------------------------------------------------------------


@dataclass(frozen=True, config=OPTIONS)
class ClientDirichlet:
    """Options."""

    alpha: float = Field(gt=0, description="concentration of a client's class distribution")
    train: int = Field(default=500, ge=1, description="train samples per client")
    test: int = Field(default=100, ge=1, description="test samples per client")


def _check_client_dirichlet(facts: Facts, clients: int, options: ClientDirichlet) -> None:
    facts.require_splits()
    for split, size in (("train", options.train), ("test", options.test)):
        if size > facts.splits[split]:
            raise DataError(
                f"{split} = {size:,} is more per client than the {facts.splits[split]:,} {split}"
                " samples there are"
            )


@partitioner("client-dirichlet", ClientDirichlet, check=_check_client_dirichlet)
def client_dirichlet(pool: Pool, clients: int, seed: int, options: ClientDirichlet) -> ClientSplits:
    """FedPURIN's partition: every client draws a class distribution and then its samples.

    A client's class shares are a draw from Dir(`alpha`). By them it gets `train` samples of the
    official training split and `test` samples of the official test split, drawn at random from each
    class, so all clients have equal sizes. Clients draw independently, so their samples overlap,
    although the paper calls them disjoint. Train and test come from two calls with the same seed;
    the class distributions are drawn first, so they are the same in both.
    """
    parts = {}
    for split, size in (("train", options.train), ("test", options.test)):
        by_class = pool.by_class(pool.splits[split])
        for label, index in enumerate(by_class):
            if not len(index):
                raise DataError(f"class {label} has no {split} sample")
        parts[split] = _draw_clients(by_class, clients, size, options.alpha, seed)
    return ClientSplits.of(parts["train"], parts["test"])


def _draw_clients(
    by_class: list[np.ndarray], clients: int, size: int, alpha: float, seed: int
) -> list[np.ndarray]:
    """Draw `size` samples per client, rounded greedily in class order."""
    stream = np.random.RandomState(seed)
    shares = _dirichlet(stream, alpha, len(by_class), clients)  # [N, C]
    parts = []
    for row in shares:
        drawn, left = [], size
        for label, index in enumerate(by_class):
            last = label == len(by_class) - 1
            count = left if last else min(max(int(size * row[label] + 0.5), 0), left)
            left -= count
            # drawn even when empty: it moves the stream
            drawn.append(stream.choice(index, count, replace=count > len(index)))
        parts.append(np.concatenate(drawn))
    return parts


# -- Star-PFL --------------------------------------------------------------------------------------


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


def _check_pairs(facts: Facts, clients: int, options: PairwiseDirichlet) -> None:
    samples = sum(facts.splits.values())
    step = int(1 / clients * samples)
    if clients % 2:
        raise DataError("clients come in pairs: use an even number")
    if step < 2 * facts.classes:
        raise DataError(
            f"{samples:,} samples leave {step} per client, too few to cut {facts.classes} classes"
            " in three: use fewer clients"
        )


@partitioner("pairwise-dirichlet", PairwiseDirichlet, check=_check_pairs)
def pairwise_dirichlet(
    pool: Pool, clients: int, seed: int, options: PairwiseDirichlet
) -> ClientSplits:
    """Star-PFL's partition: pairs of clients jointly hold an IID part of all samples.

    All official splits are pooled and shuffled, and each pair gets an equal part. Within a pair,
    every class is cut in two by a draw from Dir(`alpha`), and a client with its fair share gets no
    more. So classes are skewed only there, and heterogeneity is mild. Clients have exactly equal
    sizes; up to N - 1 samples are dropped. Of each class of a client, `train_share` is for
    training, `test_share` for testing, and the rest for validation.
    """
    samples = len(pool.labels)
    step = int(1 / clients * samples)
    stream = np.random.RandomState(seed)
    rows = np.arange(samples)
    stream.shuffle(rows)
    size = int(2 / clients * samples)
    bounds = [k * size for k in range(clients // 2)] + [samples]
    sides: list[np.ndarray] = []
    for start, stop in pairwise(bounds):
        sides += split_pair(pool, rows[start:stop], options.alpha, stream)
    line = np.concatenate(sides)
    return _cut_by_class(pool, [line[k * step : (k + 1) * step] for k in range(clients)], options)


def split_pair(
    pool: Pool, rows: np.ndarray, alpha: float, stream: np.random.RandomState
) -> list[np.ndarray]:
    """Split samples over two clients, until the smaller one has half of its fair share."""
    fair = len(rows) / 2
    labels = pool.labels[rows]
    for _ in range(MAX_ATTEMPTS):
        pair: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
        sizes = np.zeros(2, dtype=np.int64)
        for label in range(pool.classes):
            index = rows[labels == label]
            # a client with its fair share gets no more
            weights = stream.dirichlet(np.repeat(alpha, 2)) * (sizes < fair)
            total = weights.sum()
            # without any weight, also by underflow, all samples go to the second client
            cut = int(weights[0] / total * len(index)) if total > 0 else 0
            pair[0].append(index[:cut])
            pair[1].append(index[cut:])
            sizes += (cut, len(index) - cut)
        if sizes.min() >= int(0.5 * fair):
            return [np.concatenate(side) for side in pair]
    raise DataError(
        f"no draw of {MAX_ATTEMPTS} split a pair of clients evenly enough: use a larger alpha"
    )


def _cut_by_class(
    pool: Pool, clients: list[np.ndarray], options: PairwiseDirichlet
) -> ClientSplits:
    """Cut each client's classes, in dataset order: first train, then test, then validation."""
    parts: tuple[list[np.ndarray], ...] = ([], [], [])
    for rows in clients:
        pieces: tuple[list[np.ndarray], ...] = ([], [], [])
        for index in pool.by_class(rows):
            first = int(options.train_share * len(index))
            second = first + int(options.test_share * len(index))
            for piece, cut in zip(pieces, np.split(index, [first, second]), strict=True):
                piece.append(cut)
        for part, piece in zip(parts, pieces, strict=True):
            part.append(np.concatenate(piece))
    return ClientSplits.of(*parts)
