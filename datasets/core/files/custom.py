"""Descriptions of users' own datasets, one function per form of data.

    register(from_folder("birds", "photos/birds", shape=(32, 32, 3)))

Classes and shape are part of a description, so that cells can be planned without the data. Arrays
come with their description; other data are read once, by `repfl data get NAME`, and then mapped
into memory like any other dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.arrow import class_names, is_saved, read_saved
from repfl.datasets.core.files.readers import (
    as_pixels,
    class_folders,
    read_classes,
    reading,
    split_folders,
)
from repfl.datasets.core.registry import Arrays, Dataset, Kind, Reader
from repfl.datasets.core.registry import register as register
from repfl.datasets.core.user_paths import real_path

Shape = tuple[int, int, int] | tuple[int, int] | tuple[int]
"""(height, width, channels) of images, (channels, length) of signals, or (F,) of vectors of F
features; with a vocabulary, (length,) of token ids.
"""
KINDS: Mapping[int, Kind] = {1: "features", 2: "signals", 3: "images"}
Split = Arrays | tuple[Any, ...]
"""Inputs and labels, optionally followed by groups and source ids."""


def from_arrays(
    name: str,
    make: Callable[[], Mapping[str, Split]],
    *,
    classes: Sequence[str],
    shape: Shape,
    **facts: Any,
) -> Dataset:
    """Describe what a function returns: inputs and labels of train, test and perhaps val, or all.

    Images are uint8 [n, H, W, C]; features become float32 [n, F], and signals float32 [n, C, T].
    With `vocabulary=V`, inputs are token ids [n, T] from 0 to V - 1. A split is
    `(inputs, labels)`, or `(inputs, labels, groups)` with a whole number a sample, such as its
    person, whose names are `groups=[...]`.
    """

    def read(_: Path) -> dict[str, Arrays]:
        with _errors_of(name):
            parts = make()
            if not isinstance(parts, Mapping):
                problem = f"returns {type(parts).__name__}; it returns splits by name"
                raise DataError(f"{name}: the function that makes it {problem}")
            vocabulary = facts.get("vocabulary", 0)
            return {
                split: _arrays(name, split, part, shape, vocabulary)
                for split, part in parts.items()
            }

    return _describe(name, read, classes, shape, embedded=True, **facts)


def from_npz(
    name: str, path: Path | str, *, classes: Sequence[str], shape: Shape, **facts: Any
) -> Dataset:
    """Describe an .npz file with `train_images` (or `train_features`) and `train_labels`.

    The same for test, and perhaps val; without a split, `all_images` and `all_labels`.
    `train_groups` and `train_source_ids` are optional, as are `all_groups` and `all_source_ids`.
    """
    inputs, file = "images" if len(shape) == 3 else "features", real_path(path)
    parts = (inputs, "labels", "groups", "source_ids")

    def read(_: Path) -> dict[str, Arrays]:
        with reading(file), np.load(file, allow_pickle=False) as packed:
            content = dict(packed)
        splits = [key.removesuffix(f"_{inputs}") for key in content if key.endswith(f"_{inputs}")]
        valid = [f"{split}_{part}" for split in splits for part in parts]
        if unknown := [key for key in content if key not in valid]:
            valid = valid or [f"{split}_{part}" for split in ("train", "all") for part in parts]
            raise DataError(
                f"{file} has {unknown[0]}, which is not read; valid: {', '.join(valid)}"
            )
        try:
            return {
                split: _arrays(
                    name,
                    split,
                    Arrays(
                        content[f"{split}_{inputs}"],
                        content[f"{split}_labels"],
                        content.get(f"{split}_groups"),
                        content.get(f"{split}_source_ids"),
                    ),
                    shape,
                    facts.get("vocabulary", 0),
                )
                for split in splits
            }
        except KeyError as error:
            raise DataError(f"{file} has no {error}; it has {', '.join(content)}") from None

    return _describe(name, read, classes, shape, source=file, **facts)


def from_folder(
    name: str,
    path: Path | str,
    *,
    shape: tuple[int, int, int],
    classes: Sequence[str] = (),
    **facts: Any,
) -> Dataset:
    """Describe images in one folder per class, with or without folders train/, val/ and test/.

    Images are resized. The default classes are the names of the folders.
    """
    folder = real_path(path)
    classes = tuple(classes) or _class_names(name, folder)

    def read(_: Path) -> dict[str, Arrays]:
        return {
            split: read_classes(root, classes, shape, resize=True)
            for split, root in _roots(folder).items()
        }

    return _describe(name, read, classes, shape, resize=True, source=folder, **facts)


def from_saved(
    name: str, path: Path | str, *, shape: tuple[int, int, int], **facts: Any
) -> Dataset:
    """Describe images in a folder that Hugging Face's `save_to_disk` wrote. Images are resized."""
    folder = real_path(path)
    if not is_saved(folder):
        raise DataError(f"{name}: {folder} is no folder that `save_to_disk` wrote")
    classes = class_names(folder)

    def read(_: Path) -> dict[str, Arrays]:
        return read_saved(folder, classes, shape, resize=True)

    return _describe(name, read, classes, shape, resize=True, source=folder, **facts)


def from_class(
    name: str,
    kind: str | Callable[..., Any],
    *,
    classes: Sequence[str],
    shape: tuple[int, int, int],
    splits: Sequence[str] = ("train", "test"),
    options: Mapping[str, Any] | None = None,
    **facts: Any,
) -> Dataset:
    """Describe a dataset class, such as `torchvision.datasets:USPS` or one of medmnist.

    Its items are pairs of an image and a label. It is given `root`, `download`, and `train` or
    `split`, if it has these parameters.
    """

    def read(folder: Path) -> dict[str, Arrays]:
        make = _imported(kind) if isinstance(kind, str) else kind
        known = signature(make).parameters
        if "train" in known:
            choices: dict[str, dict[str, Any]] = {
                "train": {"train": True},
                "test": {"train": False},
            }
        elif "split" in known:
            choices = {split: {"split": split} for split in splits}
        else:
            choices = {"all": {}}
        place = {"root": str(folder), "download": True}
        place = {key: value for key, value in place.items() if key in known}
        with reading(folder):
            return {
                split: _pairs(make(**choice, **place, **(options or {})), shape)
                for split, choice in choices.items()
            }

    return _describe(name, read, classes, shape, resize=True, **facts)


# -- parts -----------------------------------------------------------------------------------------


def _describe(
    name: str, read: Reader, classes: Sequence[str], shape: Shape, **facts: Any
) -> Dataset:
    """Return a description without published facts."""
    if len(shape) not in (1, 2, 3) or (len(shape) == 3 and shape[0] != shape[1]):
        raise DataError(
            f"{name}: shape {shape} is not valid; valid: (height, width, channels) of square"
            " images, (channels, length) of signals, or (F,) of features"
        )
    if facts.get("vocabulary") and len(shape) != 1:
        raise DataError(f"{name}: token ids have shape (length,), not {shape}")
    kind = KINDS[len(shape)] if not facts.get("vocabulary") else "tokens"
    stored = {1: (1, 1, *shape), 2: (1, *shape[::-1])}
    defaults = {"title": name, "homepage": "", "licence": "", "citation": "", "kind": kind}
    return Dataset(
        **{
            **defaults,
            **({} if kind == "images" else {"scale": 1.0}),
            **facts,
            "name": name,
            "classes": tuple(map(str, classes)),
            "shape": stored.get(len(shape), shape),
            "editions": (),
            "read": read,
        }
    )


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Turn whatever a user's function raises into one line with its place."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        at = extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"{name}: the function that makes it raised {type(error).__name__}: {error}"
            f" ({at.filename}, line {at.lineno})"
        ) from error


def _arrays(name: str, split: str, part: Split, shape: Shape, vocabulary: int = 0) -> Arrays:
    """Return one split in the form of the cache."""
    inputs, labels, *sides = (None if side is None else np.asarray(side) for side in part)
    where = f"{name} {split}"
    if inputs is None or labels is None or len(inputs) != len(labels):
        counts = (0 if side is None else len(side) for side in (inputs, labels))
        raise DataError("{}: {} inputs have {} labels".format(where, *counts))
    _refuse_labels(where, labels)
    for side in sides:
        if side is not None and (side.shape != (len(labels),) or side.dtype.kind not in "iu"):
            raise DataError(f"{where}: groups and source ids are one integer per sample")
    if vocabulary:
        inputs = _tokens(where, inputs, shape[0], vocabulary)
    else:
        inputs = (_features if len(shape) < 3 else _images)(where, inputs, shape)
    integers = [None if side is None else side.astype(np.int64) for side in sides]
    return Arrays(inputs, labels.reshape(-1).astype(np.int64), *integers)


def _refuse_labels(where: str, labels: np.ndarray) -> None:
    """Refuse labels that are not one class per sample."""
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(
            f"{where}: labels are {labels.dtype}, not integers from 0; every sample has one class,"
            " and regression is not supported"
        )
    if labels.size != len(labels):
        raise DataError(
            f"{where}: labels are {list(labels.shape)}, not one integer per sample; several labels"
            " of a sample, or a label per token, are not supported: give each prediction a sample"
        )


def _images(where: str, inputs: np.ndarray, shape: Shape) -> np.ndarray:
    """Return images [n, H, W] or [n, H, W, C] with channels."""
    if inputs.dtype != np.uint8 or inputs.ndim not in (3, 4):
        raise DataError(
            f"{where}: images are {inputs.dtype} {list(inputs.shape)}, not uint8 [n, H, W, C]; give"
            " pixels as whole numbers from 0 to 255, since recipes normalise them"
        )
    return inputs[..., None] if inputs.ndim == 3 else inputs


def _features(where: str, inputs: np.ndarray, shape: Shape) -> np.ndarray:
    """Return features [n, F] or signals [n, C, T] as images of one row."""
    kind = KINDS[len(shape)]
    if inputs.dtype.kind not in "biuf" or inputs.shape[1:] != shape:
        given = f"{inputs.dtype} {list(inputs.shape)}"
        expected = ", ".join(map(str, shape))
        raise DataError(f"{where}: {kind} are {given}, not numbers [n, {expected}]")
    rows = inputs[:, None] if kind == "features" else inputs.swapaxes(1, 2)
    with np.errstate(over="ignore"):
        features = np.ascontiguousarray(rows, "<f4")[:, None]
    if not np.isfinite(features).all():
        raise DataError(f"{where}: {kind} are not all finite numbers of float32")
    return features


def _tokens(where: str, inputs: np.ndarray, length: int, vocabulary: int) -> np.ndarray:
    """Return token ids [n, T] as images of one row."""
    if inputs.dtype.kind not in "iu" or inputs.shape[1:] != (length,):
        given = f"{inputs.dtype} {list(inputs.shape)}"
        raise DataError(f"{where}: token ids are {given}, not integers [n, {length}]")
    if inputs.size and not 0 <= inputs.min() <= inputs.max() < vocabulary:
        reach = f"{inputs.min()} to {inputs.max()}"
        raise DataError(f"{where}: token ids reach from {reach}, not from 0 to {vocabulary - 1}")
    return inputs.astype(np.int64)[:, None, None, :]


def _roots(folder: Path) -> dict[str, Path]:
    """Return the folder of each split; the folder itself if there are none."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of images")
    return split_folders(folder.iterdir()) or {"all": folder}


def _class_names(name: str, folder: Path) -> tuple[str, ...]:
    """Return the names of the class folders."""
    try:
        roots = _roots(folder)
    except DataError as error:
        raise DataError(f"{name}: {error}; name its classes if it is on another machine") from None
    root = roots.get("train") or next(iter(roots.values()))
    return tuple(path.name for path in class_folders(root))


def _imported(kind: str) -> Callable[..., Any]:
    module, _, cls = kind.partition(":")
    try:
        imported: Callable[..., Any] = getattr(import_module(module), cls)
    except (ImportError, AttributeError, ValueError):
        raise DataError(f"there is no {kind}; such as torchvision.datasets:USPS") from None
    return imported


def _pairs(items: Any, shape: tuple[int, int, int]) -> Arrays:
    """Return pairs of an image and a label as arrays."""
    images, labels = [], []
    for index in range(len(items)):
        image, label = items[index]
        images.append(as_pixels(image, f"image {index}", shape, resize=True))
        labels.append(int(np.asarray(label).item()))
    return Arrays(np.stack(images), np.array(labels, np.int64))
