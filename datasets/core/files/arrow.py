"""Images in the form of Hugging Face's `datasets`: a folder that `save_to_disk` has written, or a
data set of the hub. The folder is read with pyarrow; only the hub needs the package.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from repfl.datasets.core.errors import DataError, suggest
from repfl.datasets.core.files.readers import SPLIT_FOLDERS, as_pixels, labels_of_names, reading
from repfl.datasets.core.registry import Arrays

HUB = "hf:"
"""Prefix of a source that is the name of a data set on the hub."""


def is_saved(folder: Path) -> bool:
    """Return whether `save_to_disk` wrote a folder."""
    return any((folder / name).is_file() for name in ("dataset_dict.json", "state.json"))


def save_from_hub(name: str, folder: Path) -> None:
    """Download a data set of the hub into a folder."""
    try:
        # without the package, a clone's own folder `datasets` may be found under this name
        load_dataset = import_module("datasets").load_dataset
    except (ImportError, AttributeError):
        raise DataError(
            f"{HUB}{name} needs the package datasets: run `pip install datasets`, or save the data"
            " elsewhere with `save_to_disk` and give that folder"
        ) from None
    try:
        load_dataset(name).save_to_disk(str(folder))
    except Exception as error:  # of the network, of the hub, of the data set's own code
        line = str(error).strip().splitlines()[0]
        raise DataError(f"{HUB}{name}: {type(error).__name__}: {line}") from error


def read_saved(
    folder: Path, classes: Sequence[str], shape: tuple[int, int, int], *, resize: bool
) -> dict[str, Arrays]:
    """Read all splits; labels are mapped by the names of their classes."""
    return {
        split: _read_split(root, classes, shape, resize) for split, root in _roots(folder).items()
    }


def class_names(folder: Path) -> tuple[str, ...]:
    """Return the names of the classes of a saved data set."""
    root = next(iter(_roots(folder).values()))
    with reading(root):
        features = _features(root)
    return tuple(features[_only(root, features, "ClassLabel")]["names"])


def _roots(folder: Path) -> dict[str, Path]:
    """Return the folder of each split."""
    if not (folder / "dataset_dict.json").is_file():
        return {"all": folder}
    with reading(folder):
        names = json.loads((folder / "dataset_dict.json").read_text("utf-8"))["splits"]
    known = {name: split for split, spelled in SPLIT_FOLDERS.items() for name in spelled}
    for name in names:
        if name not in known:
            raise DataError(f"{folder} has a split {name!r}: {suggest(name, known)}")
    return {known[name]: folder / name for name in names}


def _features(root: Path) -> dict[str, Any]:
    features: dict[str, Any] = json.loads((root / "dataset_info.json").read_text("utf-8"))[
        "features"
    ]
    return features


def _only(root: Path, features: dict[str, Any], kind: str, classes: int | None = None) -> str:
    """Return the column of a kind; of class labels, one with this number of classes."""
    names = [
        name
        for name, feature in features.items()
        if feature.get("_type") == kind and classes in (None, len(feature.get("names", ())))
    ]
    if len(names) != 1:
        wanted = kind if classes is None else f"{kind} of {classes} classes"
        columns = ", ".join(f"{name} ({each.get('_type')})" for name, each in features.items())
        raise DataError(f"{root} has {len(names)} columns {wanted}, not one; it has {columns}")
    return names[0]


def _read_split(
    root: Path, classes: Sequence[str], shape: tuple[int, int, int], resize: bool
) -> Arrays:
    import pyarrow as pa
    from PIL import Image

    with reading(root):
        features = _features(root)
        pictures, labelled = (
            _only(root, features, "Image"),
            _only(root, features, "ClassLabel", len(classes)),
        )
        known, names = labels_of_names(classes), features[labelled]["names"]
        for name in names:
            if name not in known:
                raise DataError(f"{root} has a class {name!r}: {suggest(name, classes)}")
        files = [
            root / entry["filename"]
            for entry in json.loads((root / "state.json").read_text("utf-8"))["_data_files"]
        ]
        images, labels = list[np.ndarray](), list[int]()
        for file in files:
            with pa.memory_map(str(file)) as mapped:
                table = pa.ipc.open_stream(mapped).read_all()
            labels += table[labelled].to_pylist()
            for picture in table[pictures]:
                with Image.open(io.BytesIO(picture["bytes"].as_py())) as image:
                    place = f"{file}, image {len(images)}"
                    images.append(as_pixels(image, place, shape, resize))
    lookup = np.array([known[name] for name in names], np.int64)
    return Arrays(np.stack(images), lookup[np.array(labels, np.int64)])
