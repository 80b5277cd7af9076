"""Whether arrays that were read are the dataset that was described."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import SPLITS, Dataset, Edition

OWN = "own"
"""The edition of a dataset of which nothing is published."""


def check(dataset: Dataset, splits: Mapping[str, Arrays], source: Path) -> Edition:
    """The edition that arrays belong to; sizes, shapes and class counts must all be as
    published.
    """
    for split, arrays in splits.items():
        if arrays.images.shape[1:] != dataset.shape:
            raise DataError(
                f"{source}: {split} images are {arrays.images.shape[1:]}, {dataset.name} has"
                f" {dataset.shape}"
            )
        low, high = (
            (int(arrays.labels.min()), int(arrays.labels.max())) if len(arrays.labels) else (0, 0)
        )
        if low < 0 or high >= len(dataset.classes):
            raise DataError(
                f"{source}: {split} labels reach from {low} to {high}, not from 0 to"
                f" {len(dataset.classes) - 1}"
            )
    for side in ("groups", "origins"):
        without = [split for split, arrays in splits.items() if getattr(arrays, side) is None]
        if 0 < len(without) < len(splits):
            raise DataError(
                f"{source}: {', '.join(without)} has no {side}: give them for every split, or for"
                " none"
            )
    counts = {
        split: np.bincount(arrays.labels, minlength=len(dataset.classes))
        for split, arrays in splits.items()
    }
    if not dataset.editions:
        return _found(dataset, counts, source)
    for edition in dataset.editions:
        if not _differences(dataset, edition, counts):
            return edition
    raise DataError(f"{source}: {_differences(dataset, dataset.editions[0], counts)}")


def _differences(dataset: Dataset, edition: Edition, counts: Mapping[str, np.ndarray]) -> str:
    """The first way in which class counts depart from an edition, or nothing."""
    missing = [split for split in edition.sizes if split not in counts]
    if missing or len(counts) != len(edition.sizes):
        return (
            f"splits {', '.join(sorted(counts))} found, {dataset.name} has"
            f" {', '.join(edition.sizes)}"
        )
    for split in (split for split in SPLITS if split in edition.sizes):
        published = edition.counts[split] if edition.counts else None
        for label, count in enumerate(counts[split]):
            if published and count != published[label]:
                name = dataset.classes[label]
                return (
                    f"{dataset.name} {split} has {count:,} samples of class {name!r},"
                    f" {published[label]:,} are published"
                )
            if not count:
                return f"{dataset.name} {split} has no sample of class {dataset.classes[label]!r}"
        if counts[split].sum() != edition.sizes[split]:
            return (
                f"{dataset.name} {split} has {counts[split].sum():,} samples,"
                f" {edition.sizes[split]:,} are published"
            )
    pooled = np.sum(list(counts.values()), axis=0)
    for label, published_total in enumerate(edition.totals or ()):
        if pooled[label] != published_total:
            return (
                f"{dataset.name} has {pooled[label]:,} samples of class {dataset.classes[label]!r},"
                f" {published_total:,} are published"
            )
    return ""


def _found(dataset: Dataset, counts: Mapping[str, np.ndarray], source: Path) -> Edition:
    """What was read of a dataset of one's own, of which nothing is published."""
    named = set(counts)
    if named != {"all"} and not {"train", "test"} <= named <= {"train", "val", "test"}:
        raise DataError(
            f"{source}: {dataset.name} has splits {', '.join(sorted(counts)) or 'of no kind'};"
            " valid: train and test, with or without val, or all alone"
        )
    for split, found in counts.items():
        if not found.all() and split in ("train", "all"):
            missing = dataset.classes[int(found.argmin())]
            raise DataError(f"{source}: {dataset.name} {split} has no sample of class {missing!r}")
    return Edition(OWN, {split: int(found.sum()) for split, found in counts.items()})
