"""Descriptions of one's own datasets, one function per form in which people hold them.

    register(from_folder("birds", "photos/birds", shape=(32, 32, 3)))

Each returns a `Dataset` that `register` makes known. Classes and shape are part of the description,
so that cells can be planned on machines that do not have the data. Arrays come with their
description; everything else is prepared once, by `repfl data get NAME`, and from then on mapped
into memory like any other dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from inspect import signature
from pathlib import Path
from traceback import extract_tb
from typing import Any

import numpy as np

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.formats import FOLDERS, as_pixels, class_folders, read_classes, reading
from repfl.datasets.core.paths import real_path
from repfl.datasets.core.registry import Dataset, Reader
from repfl.datasets.core.registry import register as register

Shape = tuple[int, int, int] | tuple[int]
"""(height, width, channels) of images, or (F,) of vectors of F features."""
Split = Arrays | tuple[Any, Any]
"""Inputs and labels, and whoever likes adds groups and origins."""


def from_arrays(
    name: str,
    make: Callable[[], Mapping[str, Split]],
    *,
    classes: Sequence[str],
    shape: Shape,
    **facts: Any,
) -> Dataset:
    """What a function returns: per split (train and test, with or without val, or all alone) inputs
    and labels. Images are uint8 [n, H, W, C], features become float32 [n, F].
    """
    features = len(shape) == 1

    def read(_: Path) -> dict[str, Arrays]:
        with _blamed(name):
            return {split: _arrays(name, split, part, features) for split, part in make().items()}

    return _own(name, read, classes, shape, embedded=True, **facts)


def from_npz(
    name: str, path: Path | str, *, classes: Sequence[str], shape: Shape, **facts: Any
) -> Dataset:
    """An .npz file with `train_images` (or `train_features`), `train_labels`, the same for test,
    and where one likes `train_groups`, `train_origins`.
    """
    inputs, place = "images" if len(shape) == 3 else "features", real_path(path)

    def read(_: Path) -> dict[str, Arrays]:
        with reading(place), np.load(place, allow_pickle=False) as file:
            held = {key: file[key] for key in file.files}
        splits = [key.removesuffix(f"_{inputs}") for key in held if key.endswith(f"_{inputs}")]
        try:
            return {
                split: _arrays(
                    name,
                    split,
                    Arrays(
                        held[f"{split}_{inputs}"],
                        held[f"{split}_labels"],
                        held.get(f"{split}_groups"),
                        held.get(f"{split}_origins"),
                    ),
                    inputs == "features",
                )
                for split in splits
            }
        except KeyError as error:
            raise DataError(f"{place} has no {error}; it has {', '.join(held)}") from None

    return _own(name, read, classes, shape, **facts)


def from_folder(
    name: str,
    path: Path | str,
    *,
    shape: tuple[int, int, int],
    classes: Sequence[str] = (),
    **facts: Any,
) -> Dataset:
    """Images in one folder per class, below train/ and test/ (and val/) or without; of any size,
    since they are resized. Classes that are not named are those of the folder.
    """
    place = real_path(path)
    classes = tuple(classes) or _class_folders(name, place)

    def read(_: Path) -> dict[str, Arrays]:
        return {
            split: read_classes(root, classes, shape, resize=True)
            for split, root in _split_folders(place).items()
        }

    return _own(name, read, classes, shape, resize=True, **facts)


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
    """A dataset class of torchvision, medmnist or anybody, as `torchvision.datasets:USPS`: what it
    holds are pairs of an image and a label, and it takes `root`, `download`, and `train` or `split`
    where it knows splits.
    """

    def read(folder: Path) -> dict[str, Arrays]:
        make = _imported(kind) if isinstance(kind, str) else kind
        with reading(folder):
            return {
                split: _pairs(make(**chosen, **_known(make, folder), **(options or {})), shape)
                for split, chosen in _choices(make, splits).items()
            }

    return _own(name, read, classes, shape, resize=True, **facts)


# -- parts -----------------------------------------------------------------------------------------


def _own(name: str, read: Reader, classes: Sequence[str], shape: Shape, **facts: Any) -> Dataset:
    """A description of which nothing is published."""
    whole = shape if len(shape) == 3 else (1, 1, *shape)
    told = {"title": name, "homepage": "", "licence": "", "citation": ""}
    scale = {} if len(shape) == 3 else {"features": True, "scale": 1.0}
    return Dataset(
        **{
            **told,
            **scale,
            **facts,
            "name": name,
            "classes": tuple(map(str, classes)),
            "shape": whole,
            "editions": (),
            "read": read,
        }
    )


@contextmanager
def _blamed(name: str) -> Iterator[None]:
    """Turn whatever a description's own function raises into one line that says where."""
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        at = extract_tb(error.__traceback__)[-1]
        raise DataError(
            f"{name}: what describes it raised {type(error).__name__}: {error} ({at.filename}, line"
            f" {at.lineno})"
        ) from error


def _arrays(name: str, split: str, part: Split, features: bool) -> Arrays:
    """One split in the form that the store keeps."""
    inputs, labels, *sides = (None if side is None else np.asarray(side) for side in part)
    where = f"{name} {split}"
    if inputs is None or labels is None or len({len(inputs), len(labels)}) > 1:
        raise DataError(f"{where}: as many labels as inputs are needed")
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"{where}: labels are {labels.dtype}, not integers from 0")
    for side in sides:
        if side is not None and (side.shape != (len(labels),) or side.dtype.kind not in "iu"):
            raise DataError(f"{where}: groups and origins are one integer per sample")
    held = _features(where, inputs) if features else _images(where, inputs)
    kept = [None if side is None else side.astype(np.int64) for side in sides]
    return Arrays(held, labels.reshape(-1).astype(np.int64), *kept)


def _features(where: str, inputs: np.ndarray) -> np.ndarray:
    if inputs.ndim != 2 or not np.isfinite(inputs).all():
        raise DataError(f"{where}: features are finite numbers [n, F]")
    return np.ascontiguousarray(inputs, "<f4")[:, None, None, :]


def _images(where: str, inputs: np.ndarray) -> np.ndarray:
    if inputs.dtype != np.uint8 or inputs.ndim not in (3, 4):
        raise DataError(
            f"{where}: images are {inputs.dtype} {list(inputs.shape)}, not uint8 [n, H, W, C]"
        )
    return inputs if inputs.ndim == 4 else inputs[..., None]


def _split_folders(folder: Path) -> dict[str, Path]:
    """The folder of each split; the folder itself where there are none."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of images")
    below = {path.name.lower(): path for path in folder.iterdir() if path.is_dir()}
    found = {
        split: below[name] for split, names in FOLDERS.items() for name in names if name in below
    }
    return found or {"all": folder}


def _class_folders(name: str, folder: Path) -> tuple[str, ...]:
    """The classes that a folder has."""
    try:
        roots = _split_folders(folder)
    except DataError as error:
        raise DataError(f"{name}: {error}; name its classes where it is not at hand") from None
    root = roots.get("train") or next(iter(roots.values()))
    return tuple(path.name for path in class_folders(root))


def _imported(kind: str) -> Callable[..., Any]:
    module, _, cls = kind.partition(":")
    try:
        found: Callable[..., Any] = getattr(import_module(module), cls)
    except (ImportError, AttributeError, ValueError):
        raise DataError(f"there is no {kind}; such as torchvision.datasets:USPS") from None
    return found


def _known(make: Callable[..., Any], folder: Path) -> dict[str, Any]:
    """Where its files go, as far as the class asks for it."""
    wanted = {"root": str(folder), "download": True}
    return {key: value for key, value in wanted.items() if key in signature(make).parameters}


def _choices(make: Callable[..., Any], splits: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the class is told for each split."""
    parameters = signature(make).parameters
    if "train" in parameters:
        return {"train": {"train": True}, "test": {"train": False}}
    return {split: {"split": split} for split in splits} if "split" in parameters else {"all": {}}


def _pairs(held: Iterable[tuple[Any, Any]], shape: tuple[int, int, int]) -> Arrays:
    """Pairs of an image and a label as arrays."""
    images, labels = [], []
    for index in range(len(held)):  # type: ignore[arg-type]
        image, label = held[index]  # type: ignore[index]
        images.append(as_pixels(image, f"image {index}", shape, resize=True))
        labels.append(int(np.asarray(label).item()))
    return Arrays(np.stack(images), np.array(labels, np.int64))
