"""Dis-PFL's pathological split, also used for PFedDST: every client draws a few classes and gets
its samples one at a time.

A class that runs out starts again at a random position, so clients may share samples. Test parts
are drawn per client from the classes it holds, and overlap between clients. The legacy Python and
NumPy streams of the published code are replayed.
"""

from __future__ import annotations

import math
import random

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.partition import ATTEMPTS, OPTIONS, Pool, Shares, rule


@dataclass(frozen=True, config=OPTIONS)
class NCls:
    """Options."""

    classes: int = Field(default=2, ge=1, description="classes per client")
    truncate: bool = Field(
        default=False,
        description=(
            "one train sample fewer per client, as a rounding slip of the published code has it"
        ),
    )


@rule("n-cls", NCls)
def n_cls(pool: Pool, clients: int, seed: int, options: NCls) -> Shares:
    """N clients of equal size with a fixed number of classes, uniformly drawn."""
    if not {"train", "test"} <= set(pool.splits):
        raise DataError(
            "the rule needs official train and test splits, which this dataset does not have"
        )
    train, test = pool.splits["train"], pool.splits["test"]
    size = len(train) // clients - options.truncate
    if options.classes > pool.classes:
        raise DataError(f"a client cannot hold {options.classes} of {pool.classes} classes")
    if size < options.classes:
        raise DataError(f"{len(train):,} train samples leave {size} per client: use fewer clients")
    if min(map(len, pool.of(train))) < 2 or min(map(len, pool.of(test))) < 1:
        raise DataError("every class needs at least two train samples and one test sample")
    classes, stream = random.Random(seed), np.random.RandomState(seed)
    stream.lognormal(
        mean=np.log(len(train) / clients), sigma=0, size=clients
    )  # the published code draws sizes that never vary
    held = [classes.sample(range(pool.classes), options.classes) for _ in range(clients)]
    shares = deal_singly(pool.of(train), held, size, stream)
    return Shares.of(
        shares, [draw_test(pool, share, math.ceil(len(test) / clients), stream) for share in shares]
    )


def deal_singly(
    lists: list[np.ndarray], held: list[list[int]], size: int, stream: np.random.RandomState
) -> list[np.ndarray]:
    """One sample at a time to a random client with room, from one of its classes, from the end of
    the class's list.
    """
    clients = len(held)
    cumulative = np.zeros((clients, len(lists)))
    for row, labels in zip(cumulative, held, strict=True):
        row[labels] = 1.0 / len(labels)
    cumulative = cumulative.cumsum(axis=1)  # [N, C]
    room = [size] * clients
    pointer = [len(index) for index in lists]
    shares: list[list[int]] = [[] for _ in range(clients)]
    left = size * clients
    for _ in range(
        left * (20 + 20 * clients)
    ):  # every draw meets a client with room with chance 1/N at least
        if left == 0:
            return [np.array(share) for share in shares]
        client = stream.randint(clients)
        if room[client] <= 0:
            continue
        room[client] -= 1
        left -= 1
        label = next_class(cumulative[client], lists, pointer, stream)
        pointer[label] -= 1
        shares[client].append(int(lists[label][pointer[label]]))
    raise DataError("the clients could not be filled: use fewer clients")


def next_class(
    cumulative: np.ndarray,
    lists: list[np.ndarray],
    pointer: list[int],
    stream: np.random.RandomState,
) -> int:
    """A class of the client with samples before its pointer; an exhausted class restarts at random
    and the class is drawn again.
    """
    for _ in range(ATTEMPTS):
        label = int(np.argmax(stream.uniform() <= cumulative))
        if pointer[label] > 0:
            return label
        pointer[label] = stream.randint(0, len(lists[label]))
    raise DataError("the classes could not be restarted: use fewer clients")


def draw_test(
    pool: Pool, share: np.ndarray, size: int, stream: np.random.RandomState
) -> np.ndarray:
    """Test samples in the proportions of a client's train classes, rounded up per class."""
    counts = np.bincount(pool.labels[share], minlength=pool.classes)
    picked = []
    for label, index in enumerate(pool.of(pool.splits["test"])):
        order = stream.permutation(len(index))
        picked.append(index[order[: math.ceil(counts[label] / counts.sum() * size)]])
    return np.concatenate(picked)
