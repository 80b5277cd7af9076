"""Canonical order, fingerprints, and comparison with what is published.

The samples of a split are sorted by label, then by the SHA-256 of the image's raw bytes. The
fingerprint of a split is the SHA-256 of its images in that order, then its labels as little-endian
int64. Both are independent of the files that a dataset came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import numpy as np

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import SPLITS, Arrays, Dataset, Edition

OWN = "own"
"""Edition of users' own data, of which nothing is published."""


class Checked(NamedTuple):
    """The splits of a dataset in canonical order, with their identity."""

    edition: str
    splits: dict[str, Arrays]
    fingerprints: dict[str, str]


def canonical_order(arrays: Arrays) -> np.ndarray:
    """Return the positions of the samples in canonical order  [n]."""
    digests = b"".join(sha256(image.tobytes()).digest() for image in arrays.images)
    words = np.frombuffer(digests, dtype=">u8").reshape(-1, 4).astype(np.uint64)
    # equal images need a fixed order too
    ties = [side for side in (arrays.source_ids, arrays.groups) if side is not None]
    return np.lexsort([*ties, *words.T[::-1], arrays.labels])


def fingerprint(images: np.ndarray, labels: np.ndarray) -> str:
    """Return the SHA-256 of images and labels in the given order."""
    digest = sha256(np.ascontiguousarray(images).data)
    digest.update(labels.astype("<i8").tobytes())
    return digest.hexdigest()


def check(dataset: Dataset, splits: Mapping[str, Arrays], source: Path | str) -> Checked:
    """Sort samples canonically; raise if shapes, counts or images are not as published."""
    for split, arrays in splits.items():
        _check_arrays(dataset, split, arrays, source)
    for side in ("groups", "source_ids"):
        without = [split for split, arrays in splits.items() if getattr(arrays, side) is None]
        if 0 < len(without) < len(splits):
            raise DataError(
                f"{source}: {', '.join(without)} has no {side}: give them for all splits or none"
            )
    for split, arrays in splits.items():
        _check_groups(dataset, split, arrays, source)
    edition = _edition(dataset, splits, source)
    sorted_splits, fingerprints = {}, {}
    for split in (split for split in SPLITS if split in splits):
        arrays, order = splits[split], canonical_order(splits[split])
        # indexing keeps the memory layout of a transposed array; files need C order
        sides = [None if side is None else np.ascontiguousarray(side[order]) for side in arrays]
        arrays = Arrays(*sides)  # type: ignore[arg-type]
        sorted_splits[split] = arrays
        fingerprints[split] = fingerprint(arrays.images, arrays.labels)
        published = (edition.fingerprints or {}).get(split, fingerprints[split])
        if fingerprints[split] != published:
            raise DataError(
                f"{source}: {dataset.name} {split} has other images than published: get the"
                " original files"
            )
    return Checked(edition.name, sorted_splits, fingerprints)


def _check_arrays(dataset: Dataset, split: str, arrays: Arrays, source: Path | str) -> None:
    if arrays.images.shape[1:] != dataset.shape:
        raise DataError(
            f"{source}: {split} images are {arrays.images.shape[1:]}, {dataset.name} has"
            f" {dataset.shape}"
        )
    labels, last = arrays.labels, len(dataset.classes) - 1
    if len(labels) and not 0 <= labels.min() <= labels.max() <= last:
        raise DataError(
            f"{source}: {split} labels reach from {labels.min()} to {labels.max()}, not from 0 to"
            f" {last}"
        )


def _check_groups(dataset: Dataset, split: str, arrays: Arrays, source: Path | str) -> None:
    """Refuse groups without names, or that are no index into their names."""
    if arrays.groups is None or not len(arrays.groups):
        return
    least, most, names = int(arrays.groups.min()), int(arrays.groups.max()), len(dataset.groups)
    if not names:
        raise DataError(
            f"{source}: {split} has groups, and {dataset.name} no names for them: describe it with"
            " groups=(...), a name for each person or domain"
        )
    if least < 0 or most >= names:
        raise DataError(
            f"{source}: {split} groups reach from {least} to {most}, and there are names for 0 to"
            f" {names - 1}"
        )


def _edition(dataset: Dataset, splits: Mapping[str, Arrays], source: Path | str) -> Edition:
    """Return the edition whose counts the splits have."""
    classes = len(dataset.classes)
    counts = {
        split: np.bincount(arrays.labels, minlength=classes) for split, arrays in splits.items()
    }
    if not dataset.editions:
        return _own_edition(dataset, counts, source)
    for edition in dataset.editions:
        if not _difference(dataset, edition, counts):
            return edition
    raise DataError(f"{source}: {_difference(dataset, dataset.editions[0], counts)}")


def _difference(dataset: Dataset, edition: Edition, counts: Mapping[str, np.ndarray]) -> str:
    """Describe the first difference between class counts and an edition; empty if none."""
    if set(counts) != set(edition.sizes):
        return (
            f"splits {', '.join(sorted(counts))} found, {dataset.name} has"
            f" {', '.join(edition.sizes)}"
        )
    for split in edition.sizes:
        where = f"{dataset.name} {split}"
        published = edition.counts[split] if edition.counts else None
        if published and (line := _miscounted(where, dataset, counts[split], published)):
            return line
        if not counts[split].all():
            return f"{where} has no sample of class {dataset.classes[counts[split].argmin()]!r}"
        size = counts[split].sum()
        if size != edition.sizes[split]:
            return f"{where} has {size:,} samples, {edition.sizes[split]:,} are published"
    if edition.totals:
        total = np.sum(list(counts.values()), axis=0)
        return _miscounted(dataset.name, dataset, total, edition.totals)
    return ""


def _miscounted(
    where: str, dataset: Dataset, counts: np.ndarray, published: tuple[int, ...]
) -> str:
    for name, count, expected in zip(dataset.classes, counts, published, strict=True):
        if count != expected:
            return f"{where} has {count:,} samples of class {name!r}, {expected:,} are published"
    return ""


def _own_edition(dataset: Dataset, counts: Mapping[str, np.ndarray], source: Path | str) -> Edition:
    """Check the splits of users' own data."""
    names = set(counts)
    if names != {"all"} and not {"train", "test"} <= names <= {"train", "val", "test"}:
        raise DataError(
            f"{source}: {dataset.name} has splits {', '.join(sorted(counts)) or 'of no kind'};"
            " valid: train and test, with or without val, or `all` alone"
        )
    for split, count in counts.items():
        if not count.all() and split in ("train", "all"):
            missing = dataset.classes[int(count.argmin())]
            raise DataError(f"{source}: {dataset.name} {split} has no sample of class {missing!r}")
    return Edition(OWN, {split: int(count.sum()) for split, count in counts.items()})
