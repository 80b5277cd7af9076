"""The canonical form of a dataset, whatever channel its files came through.

The samples of a split are sorted by label, then by the SHA-256 of the image's raw bytes (uint8, C
order). A split's fingerprint is the SHA-256 over its image bytes in that order, followed by its
labels as little-endian int64.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

import numpy as np

CHUNK = 4096  # images gathered at a time: bounds memory whatever the dataset's size


class Arrays(NamedTuple):
    """One split as it was read."""

    images: np.ndarray  # uint8 [n, H, W, C]
    labels: np.ndarray  # int64 [n]
    groups: np.ndarray | None = None  # int64 [n]: domain or corruption
    origins: np.ndarray | None = (
        None  # int64 [n]: which photograph, where one appears in several forms
    )


def canonical_order(arrays: Arrays) -> np.ndarray:
    """Positions of the samples in canonical order  [n]."""
    digests = b"".join(sha256(image.tobytes()).digest() for image in arrays.images)
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    ties = [
        side for side in (arrays.origins, arrays.groups) if side is not None
    ]  # equal images in a fixed order too
    return np.lexsort([*ties, *words.T[::-1], arrays.labels])


def chunks(images: np.ndarray, order: np.ndarray | None = None) -> Iterator[np.ndarray]:
    """The images in order, some thousands at a time."""
    for start in range(0, len(images), CHUNK):
        stop = start + CHUNK
        yield np.ascontiguousarray(
            images[start:stop] if order is None else images[order[start:stop]]
        )


def fingerprint(images: np.ndarray, labels: np.ndarray, order: np.ndarray | None = None) -> str:
    """SHA-256 of the images, then of the labels, in the given order."""
    digest = sha256()
    for block in chunks(images, order):
        digest.update(block.data)
    digest.update((labels if order is None else labels[order]).astype("<i8").tobytes())
    return digest.hexdigest()
