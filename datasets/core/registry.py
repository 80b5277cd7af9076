"""Descriptions of datasets, registered by name: source, content, normalisations."""

from __future__ import annotations

import pkgutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from math import prod
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from repfl.datasets.core.errors import DataError, registered, suggest

LABEL_BYTES = 8
SPLITS = ("train", "val", "test", "all")
"""The order of splits in a prepared file; `all` if there is no official split."""


class Arrays(NamedTuple):
    """The samples of one split."""

    images: np.ndarray  # [n, H, W, C] in the type and layout of its kind
    labels: np.ndarray  # int64 [n]
    groups: np.ndarray | None = None  # int64 [n], domain, person or corruption
    source_ids: np.ndarray | None = None  # int64 [n], the original a sample is derived from


Kind = Literal["images", "features", "signals", "tokens"]
"""What a sample is: an image [H, W, C], F features, a signal of C channels and T steps, or T token
ids. The last three are stored as images of one row: [1, 1, F], [1, T, C] and [1, 1, T].
"""
SAMPLE_DTYPES: Mapping[Kind, np.dtype[np.generic]] = {
    "images": np.dtype(np.uint8),
    "features": np.dtype(np.float32),
    "signals": np.dtype(np.float32),
    "tokens": np.dtype(np.int64),
}


Reader = Callable[[Path], Mapping[str, Arrays]]
"""Read a folder of official files into one `Arrays` per split."""


@dataclass(frozen=True)
class Norm:
    """A normalisation: (pixel / scale - mean) / std, per channel."""

    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]


@dataclass(frozen=True)
class File:
    """An official file; its addresses are tried in order."""

    name: str
    urls: tuple[str, ...]
    checksum: str  # algorithm:hex


@dataclass(frozen=True)
class Edition:
    """A published state of a dataset, recognised by its sizes. Fields are None if unpublished."""

    name: str
    sizes: Mapping[str, int]
    counts: Mapping[str, tuple[int, ...]] | None = None  # per split and class
    fingerprints: Mapping[str, str] | None = None
    totals: tuple[int, ...] | None = None  # per class, over all splits
    files: Callable[[], tuple[File, ...]] | None = None  # None: `Dataset.files`


@dataclass(frozen=True)
class Dataset:
    """What is known about a dataset without reading it."""

    name: str
    title: str
    homepage: str
    licence: str
    citation: str
    classes: tuple[str, ...]
    shape: tuple[int, int, int]  # H, W, C of a stored sample
    editions: tuple[Edition, ...]  # the papers' edition first; empty for users' own data
    read: Reader
    # a function, so that listing datasets does not import torchvision
    files: Callable[[], tuple[File, ...]] = tuple
    manual: str = ""  # instructions, if the licence forbids an automatic download
    embedded: bool = False  # comes with an installed library or as a function
    groups: tuple[str, ...] = ()  # names of domains or corruptions
    scale: float = 255.0  # largest pixel value
    extra_norms: Mapping[str, Norm] = field(default_factory=dict)
    size: int = 0  # bytes to download
    resize: bool = False  # resize images of other sizes
    kind: Kind = "images"
    vocabulary: int = 0  # number of token ids
    source: Path | None = None  # a user's own file or folder that it is read from
    from_npz: Callable[[Mapping[str, np.ndarray]], dict[str, Arrays]] | None = None
    version: int = 1  # raised when a change of this description moves numbers

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of a sample as people give it: (H, W, C), (F,), (C, T) or (T,)."""
        if self.kind == "signals":
            return self.shape[2], self.shape[1]
        return self.shape if self.kind == "images" else self.shape[2:]

    @property
    def model_input(self) -> tuple[int, int]:
        """Channels and size that a model is built with; of tokens, the vocabulary and length."""
        height, width, channels = self.shape
        if self.kind == "signals":
            return channels, width
        return (self.vocabulary, channels) if self.kind == "tokens" else (channels, height)

    @property
    def splits(self) -> dict[str, int]:
        """Split sizes of the papers' edition; empty if unknown."""
        sizes = self.editions[0].sizes if self.editions else {}
        return {split: sizes[split] for split in SPLITS if split in sizes}

    @property
    def counts(self) -> Mapping[str, tuple[int, ...]] | None:
        """Published class counts per split."""
        return self.editions[0].counts if self.editions else None

    @property
    def fingerprints(self) -> dict[str, str | None]:
        """Published fingerprint of every split."""
        known = (self.editions[0].fingerprints if self.editions else None) or {}
        return {split: known.get(split) for split in self.splits}

    @cached_property
    def norms(self) -> dict[str, Norm]:
        """All normalisations; `unit` (pixels in 0..1) and `raw` (as stored) always exist."""
        zeros, ones = (0.0,) * self.shape[2], (1.0,) * self.shape[2]
        return {
            "unit": Norm(self.scale, zeros, ones),
            "raw": Norm(1.0, zeros, ones),
            **self.extra_norms,
        }

    @property
    def max_bytes(self) -> int:
        """Limit on unpacked files: four times the download and the arrays; none for own data."""
        if not self.editions:
            return sys.maxsize
        samples = max(sum(edition.sizes.values()) for edition in self.editions)
        sample = prod(self.shape) * SAMPLE_DTYPES[self.kind].itemsize
        return 4 * (self.size + samples * (sample + LABEL_BYTES))

    def edition(self, name: str) -> Edition:
        """Return an edition by name."""
        known = {edition.name: edition for edition in self.editions}
        if name not in known:
            raise DataError(f"{self.name} has no edition {name!r}: {suggest(name, known)}")
        return known[name]


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, for long lists of names."""
    return tuple(text.split())


_REGISTRY: dict[str, Dataset] = {}


def register(dataset: Dataset) -> Dataset:
    """Add a dataset to the registry."""
    if dataset.name in _REGISTRY:
        raise DataError(f"dataset {dataset.name!r} is registered twice")
    _REGISTRY[dataset.name] = dataset
    return dataset


@lru_cache(maxsize=1)
def _load() -> None:
    """Import every module directly under `datasets`; each registers its datasets."""
    package = import_module("repfl.datasets")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.ispkg:
            import_module(f"repfl.datasets.{module.name}")


def names() -> list[str]:
    """Return the sorted names of all datasets."""
    _load()
    return sorted(_REGISTRY)


def get(name: str) -> Dataset:
    """Return a dataset by name."""
    _load()
    name = registered(name, _REGISTRY)
    if name not in _REGISTRY:
        raise DataError(f"unknown dataset {name!r}: {suggest(name, _REGISTRY)}")
    return _REGISTRY[name]
