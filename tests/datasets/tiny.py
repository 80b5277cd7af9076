"""Small datasets in the official formats: the same classes and readers as the real ones, with a few
images each.
"""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.datasets.core import registry
from repfl.datasets.core.cache import Prepared
from repfl.datasets.core.checks import canonical_order
from repfl.datasets.core.partition import ClientSplits, Pool, partition
from repfl.datasets.core.recipe import Partition, Recipe, Training
from repfl.datasets.core.registry import Arrays

Cifar = tuple[registry.Dataset, Path]
"""CIFAR-10 with a few images per class, and an .npz file of it."""


def images(n: int, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Random pictures  [n, *shape]."""
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def shrink(
    monkeypatch: pytest.MonkeyPatch, name: str, sizes: dict[str, int], **changes: object
) -> registry.Dataset:
    """A registered dataset whose only edition has other sizes, for the length of a test."""
    dataset = replace(registry.get(name), editions=(registry.Edition("tiny", sizes),), **changes)  # type: ignore[arg-type]
    monkeypatch.setitem(registry._REGISTRY, name, dataset)
    return dataset


def balanced(dataset: registry.Dataset, per_class: int, seed: int = 0) -> Arrays:
    """So many random images of every class, in random order."""
    labels = np.repeat(np.arange(len(dataset.classes)), per_class)
    rng = np.random.default_rng(seed)
    return Arrays(images(len(labels), dataset.shape, seed), rng.permutation(labels))


def halves(dataset: registry.Dataset, train: int = 2, test: int = 1) -> dict[str, Arrays]:
    """So many random images of every class for training, and other ones for tests."""
    return {"train": balanced(dataset, train), "test": balanced(dataset, test, seed=1)}


def few(
    monkeypatch: pytest.MonkeyPatch, name: str, train: int = 2, test: int = 1
) -> tuple[registry.Dataset, dict[str, Arrays]]:
    """A registered dataset with so many images of every class, for the length of a test."""
    classes = len(registry.get(name).classes)
    dataset = shrink(monkeypatch, name, {"train": train * classes, "test": test * classes})
    return dataset, halves(dataset, train, test)


def npz(path: Path, **splits: Arrays) -> Path:
    """An .npz file with `<split>_images` and `<split>_labels`."""
    content = {
        f"{split}_{what}": getattr(arrays, what)
        for split, arrays in splits.items()
        for what in ("images", "labels")
    }
    np.savez(path, **content)  # type: ignore[arg-type]
    return path


def tiny_cifar(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Cifar:
    """Register a small CIFAR-10 for the length of a test."""
    dataset, splits = few(monkeypatch, "cifar10", 3, 2)
    return dataset, npz(folder / "cifar10.npz", **splits)


def idx(array: np.ndarray) -> bytes:
    """An idx file of unsigned bytes."""
    return (
        struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        + array.astype(np.uint8).tobytes()
    )


def idx_folder(
    folder: Path, prefixes: dict[str, str], splits: dict[str, Arrays], packed: bool = True
) -> Path:
    """The four official idx files."""
    folder.mkdir(parents=True, exist_ok=True)
    for split, arrays in splits.items():
        for what, array in (("images-idx3", arrays.images[..., 0]), ("labels-idx1", arrays.labels)):
            path = folder / f"{prefixes[split]}-{what}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    return folder


def cifar_batches(
    monkeypatch: pytest.MonkeyPatch, folder: Path, train: Arrays, test: Arrays
) -> Path:
    """The official pickled batches of CIFAR-10, which torchvision takes for the official ones."""
    from torchvision.datasets import CIFAR10

    parts = np.array_split(np.arange(len(train.labels)), 5)
    files = {f"data_batch_{k + 1}": (train, part) for k, part in enumerate(parts)}
    files["test_batch"] = (test, np.arange(len(test.labels)))
    contents: dict[str, Any] = {"batches.meta": {"label_names": list("0123456789")}}
    for name, (arrays, part) in files.items():
        rows = arrays.images[part].transpose(0, 3, 1, 2).reshape(len(part), -1)
        contents[name] = {"data": rows, "labels": arrays.labels[part].tolist()}
    official(monkeypatch, CIFAR10, folder, contents)
    return folder


def official(
    monkeypatch: pytest.MonkeyPatch, kind: Any, folder: Path, contents: dict[str, Any]
) -> None:
    """Pickle batches, and have torchvision know their MD5."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content, protocol=2))

    def with_md5(name: str) -> list[str]:
        return [name, md5((folder / name).read_bytes()).hexdigest()]

    for attribute in ("train_list", "test_list"):
        names = [name for name, _ in getattr(kind, attribute)]
        monkeypatch.setattr(kind, attribute, [with_md5(name) for name in names])
    name, known = with_md5(kind.meta["filename"])
    monkeypatch.setattr(kind, "meta", {**kind.meta, "filename": name, "md5": known})


def picture_folder(
    folder: Path, arrays: Arrays, names: Sequence[str], suffix: str = ".png"
) -> Path:
    """One folder of pictures per class."""
    from PIL import Image

    for k, (image, label) in enumerate(zip(arrays.images, arrays.labels, strict=True)):
        path = folder / names[label] / f"{k:05}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[..., 0] if image.shape[2] == 1 else image).save(path)
    return folder


def zipped(path: Path, folder: Path) -> Path:
    """A folder as a zip archive."""
    with zipfile.ZipFile(path, "w") as file:
        for member in sorted(folder.rglob("*")):
            file.write(member, member.relative_to(folder.parent))
    return path


def tarred(path: Path, folder: Path) -> Path:
    """A folder as a tar archive."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as file:
        file.add(folder, folder.name)
    return path


def npy(array: np.ndarray) -> bytes:
    """An .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def pool(train: Sequence[int], test: Sequence[int] | None = None) -> Pool:
    """A pool from class counts alone; without test counts it has no official split."""
    labels = np.repeat(np.arange(len(train)), train)
    if test is None:
        return Pool(labels, {"all": range(len(labels))}, len(train))
    both = np.concatenate([labels, np.repeat(np.arange(len(test)), test)])
    official = {"train": range(len(labels)), "test": range(len(labels), len(both))}
    return Pool(both, official, len(train))


def recipe(
    rule: str,
    clients: int,
    dataset: str = "toy",
    seed: int | None = None,
    val_share: float | None = None,
    **options: object,
) -> Recipe:
    """A recipe of which only the partition matters."""
    return Recipe(
        dataset=dataset,
        model="tiny",
        clients=clients,
        partition=Partition(rule=rule, seed=seed, options=options, val_share=val_share),
        training=Training(rounds=1, epochs=1, batch=1, lr=0.1),
    )


def split(samples: Pool, rule: str, clients: int, at: int = 0, **options: object) -> ClientSplits:
    """The partition of a pool by a rule; `at` is the seed of the cell."""
    return partition(samples, recipe(rule, clients, **options), at)  # type: ignore[arg-type]


def two_editions(monkeypatch: pytest.MonkeyPatch, name: str) -> registry.Dataset:
    """A medical data set with 3 and 2 training images per class, for the length of a test."""
    dataset = registry.get(name)
    editions = tuple(
        replace(edition, sizes={"train": n, "val": 11, "test": 11})
        for edition, n in zip(dataset.editions, (33, 22), strict=True)
    )
    dataset = replace(dataset, editions=editions)
    monkeypatch.setitem(registry._REGISTRY, name, dataset)
    return dataset


def medical(path: Path, dataset: registry.Dataset, per_class: int) -> Path:
    """Its .npz file, in which labels are columns."""
    sizes = {"train": per_class, "val": 1, "test": 1}
    splits = {split: balanced(dataset, n, seed) for seed, (split, n) in enumerate(sizes.items())}
    return npz(
        path, **{k: held._replace(labels=held.labels[:, None]) for k, held in splits.items()}
    )


def holds(prepared: Prepared, splits: dict[str, Arrays]) -> bool:
    """Whether these are the samples of a prepared data set."""
    spans = {split: slice(span.start, span.stop) for split, span in prepared.splits.items()}
    return spans.keys() == splits.keys() and all(
        same_samples(Arrays(prepared.images[span], prepared.labels[span]), splits[split])
        for split, span in spans.items()
    )


def same_samples(one: Arrays, other: Arrays) -> bool:
    """Whether two splits hold the same labelled images, in whatever order."""
    first, second = canonical_order(one), canonical_order(other)
    same_images = np.array_equal(one.images[first], other.images[second])
    return same_images and np.array_equal(one.labels[first], other.labels[second])


def debris(root: Path) -> list[str]:
    """Everything under a data root that is neither a prepared file nor a lock."""
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and path.suffix not in (".safetensors", ".lock")
    )
