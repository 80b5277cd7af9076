"""Dis-PFL's pathological partition, also used for PFedDST.

Every client draws a few classes and gets its samples one at a time. A class that runs out restarts
at a random position, so clients may share samples. Test parts are drawn per client from its classes
and overlap too. The Python and NumPy streams of the published code are replayed.
"""

from __future__ import annotations

import math
import random

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


@dataclass(frozen=True, config=OPTIONS)
class NClasses:
    """Options."""

    classes: int = Field(default=2, ge=1, description="classes per client")
    truncate: bool = Field(
        default=False,
        description="one train sample fewer per client, a rounding slip of the published code",
    )


def _check(facts: Facts, clients: int, options: NClasses) -> None:
    facts.require_splits()
    train = facts.splits["train"]
    size = train // clients - options.truncate
    if options.classes > facts.classes:
        raise DataError(f"a client cannot hold {options.classes} of {facts.classes} classes")
    if size < options.classes:
        raise DataError(f"{train:,} train samples leave {size} per client: use fewer clients")


@partitioner("n-cls", NClasses, check=_check)
def n_classes(pool: Pool, clients: int, seed: int, options: NClasses) -> ClientSplits:
    """Dis-PFL's partition, used for PFedDST: clients of equal size hold a few random classes.

    Every client draws `classes` classes. Then a random client that is not full gets the next sample
    of one of its classes, until all have the same number of training samples. A class that runs out
    restarts at a random position, so clients may share samples. Test samples are drawn per client
    in the proportions of its training classes; they overlap too.
    """
    train, test = pool.splits["train"], pool.splits["test"]
    size = len(train) // clients - options.truncate
    if min(map(len, pool.by_class(train))) < 2 or min(map(len, pool.by_class(test))) < 1:
        raise DataError("every class needs at least two train samples and one test sample")
    python_stream, stream = random.Random(seed), np.random.RandomState(seed)
    # the published code draws sizes that never vary
    stream.lognormal(mean=np.log(len(train) / clients), sigma=0, size=clients)
    drawn = [python_stream.sample(range(pool.classes), options.classes) for _ in range(clients)]
    trains = _draw_train(pool.by_class(train), drawn, size, stream)
    test_size = math.ceil(len(test) / clients)
    return ClientSplits.of(trains, [_draw_test(pool, part, test_size, stream) for part in trains])


def _draw_train(
    by_class: list[np.ndarray], drawn: list[list[int]], size: int, stream: np.random.RandomState
) -> list[np.ndarray]:
    """Give one sample at a time to a random client that is not full, from one of its classes."""
    clients = len(drawn)
    cumulative = np.zeros((clients, len(by_class)))
    for row, labels in zip(cumulative, drawn, strict=True):
        row[labels] = 1.0 / len(labels)
    cumulative = cumulative.cumsum(axis=1)  # [N, C]
    remaining = [len(index) for index in by_class]
    parts: list[list[int]] = [[] for _ in range(clients)]
    missing = size * clients
    # a draw meets a client that is not full with a chance of 1/N or more
    for _ in range(missing * (20 + 20 * clients)):
        if missing == 0:
            return [np.array(part) for part in parts]
        client = stream.randint(clients)
        if len(parts[client]) == size:
            continue
        missing -= 1
        label = _draw_class(cumulative[client], by_class, remaining, stream)
        remaining[label] -= 1
        parts[client].append(int(by_class[label][remaining[label]]))
    raise DataError("the clients could not be filled: use fewer clients")


def _draw_class(
    cumulative: np.ndarray,
    by_class: list[np.ndarray],
    remaining: list[int],
    stream: np.random.RandomState,
) -> int:
    """Draw a class of a client; an exhausted one restarts at random, and another is drawn."""
    for _ in range(MAX_ATTEMPTS):
        label = int(np.argmax(stream.uniform() <= cumulative))
        if remaining[label] > 0:
            return label
        remaining[label] = stream.randint(0, len(by_class[label]))
    raise DataError("the classes could not be restarted: use fewer clients")


def _draw_test(
    pool: Pool, train: np.ndarray, size: int, stream: np.random.RandomState
) -> np.ndarray:
    """Draw test samples in the proportions of a client's train classes, rounded up per class."""
    counts = np.bincount(pool.labels[train], minlength=pool.classes)
    parts = []
    for label, index in enumerate(pool.by_class(pool.splits["test"])):
        order = stream.permutation(len(index))
        parts.append(index[order[: math.ceil(counts[label] / counts.sum() * size)]])
    return np.concatenate(parts)
