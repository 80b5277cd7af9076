"""Descriptions of datasets, registered by name: where they come from, what must be in them, how
pixels become inputs.
"""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from math import prod
from pathlib import Path

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.errors import DataError, nearest

Reader = Callable[
    [Path], Mapping[str, Arrays]
]  # a folder of official files -> one Arrays per split
LABEL = 8  # bytes
SPLITS = (
    "train",
    "val",
    "test",
    "all",
)  # the order in which splits follow each other; `all`: there is no official split


@dataclass(frozen=True)
class Norm:
    """An input is (pixel / scale - mean) / std, per channel."""

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class File:
    """One official file: its name, its addresses in the order they are tried, its checksum as
    `algorithm:hex`.
    """

    name: str
    urls: tuple[str, ...]
    checksum: str


@dataclass(frozen=True)
class Edition:
    """One published state of a dataset, recognised by its split sizes; what nobody has published is
    None.
    """

    name: str
    sizes: Mapping[str, int]
    counts: Mapping[str, tuple[int, ...]] | None = None
    fingerprints: Mapping[str, str] | None = None
    totals: tuple[int, ...] | None = (
        None  # class counts over all splits, where only these are published
    )
    files: Callable[[], tuple[File, ...]] | None = (
        None  # where it is fetched, unless it is the edition the papers use
    )


@dataclass(frozen=True)
class Dataset:
    """Everything known about a dataset before a byte of it is read."""

    name: str
    title: str
    homepage: str
    licence: str
    citation: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]  # H, W, C
    editions: tuple[Edition, ...]  # the one that the papers use first; none: whatever is read
    read: Reader
    files: Callable[[], tuple[File, ...]] = (
        tuple  # a function, so that listing datasets imports no heavy library
    )
    manual: str = ""  # what a user does by hand where a licence forbids fetching
    embedded: bool = False  # comes with an installed library: needs neither download nor cache
    groups: tuple[str, ...] = ()  # names of domains or corruptions
    scale: float = 255.0  # the largest pixel value
    own_norms: Mapping[str, Norm] = field(default_factory=dict)
    size: int = 0  # bytes to download
    resize: bool = False  # images of other sizes are resized on import
    features: bool = False  # vectors of numbers, of shape (1, 1, F), instead of pixels
    version: int = 1  # raised when a change of this description moves numbers

    @property
    def splits(self) -> dict[str, int]:
        """Split sizes of the papers' edition, in canonical order; nothing where none is known."""
        sizes = self.editions[0].sizes if self.editions else {}
        return {split: sizes[split] for split in SPLITS if split in sizes}

    @property
    def counts(self) -> Mapping[str, tuple[int, ...]] | None:
        """Published class counts per split."""
        return self.editions[0].counts if self.editions else None

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Known fingerprint per split."""
        known = (self.editions[0].fingerprints if self.editions else None) or {}
        return {split: known.get(split) for split in self.splits}

    @cached_property
    def norms(self) -> dict[str, Norm]:
        """All normalisations; every dataset has `unit` (pixels in 0..1) and `raw` (pixels as
        stored).
        """
        zeros, ones = (0.0,) * self.shape[2], (1.0,) * self.shape[2]
        return {
            "unit": Norm(self.scale, zeros, ones),
            "raw": Norm(1.0, zeros, ones),
            **self.own_norms,
        }

    @property
    def room(self) -> int:
        """Bytes that its files may unpack to: four times what is downloaded and what its largest
        edition holds as arrays. Files of one's own have no limit.
        """
        if not self.editions:
            return sys.maxsize
        samples = max(sum(edition.sizes.values()) for edition in self.editions)
        return 4 * (self.size + samples * (prod(self.shape) + LABEL))

    def edition(self, name: str) -> Edition:
        """One edition by name."""
        known = {edition.name: edition for edition in self.editions}
        if name not in known:
            raise DataError(f"{self.name} has no edition {name!r}: {nearest(name, known)}")
        return known[name]

    def norm(self, name: str) -> Norm:
        """One normalisation by name."""
        if name not in self.norms:
            raise DataError(
                f"{self.name} has no normalisation {name!r}: {nearest(name, self.norms)}"
            )
        return self.norms[name]


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for long lists of class names."""
    return tuple(text.split())


_REGISTRY: dict[str, Dataset] = {}


def register(dataset: Dataset) -> Dataset:
    """Make a description known by its name."""
    if dataset.name in _REGISTRY:
        raise DataError(f"dataset {dataset.name!r} is registered twice")
    _REGISTRY[dataset.name] = dataset
    return dataset


@lru_cache(maxsize=1)
def _load() -> None:
    """Import every module directly under `datasets`: each registers what it describes."""
    package = import_module("repfl.datasets")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            import_module(f"repfl.datasets.{module.name}")


def names() -> list[str]:
    """Names of all datasets, sorted."""
    _load()
    return sorted(_REGISTRY)


def get(name: str) -> Dataset:
    """The description of one dataset."""
    _load()
    if name not in _REGISTRY:
        raise DataError(f"unknown dataset {name!r}: {nearest(name, _REGISTRY)}")
    return _REGISTRY[name]
