"""Files that mean harm, that are damaged, or that are something else: one line each, nothing is
followed, nothing is filled, nothing stays behind.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import os
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision
from scipy.io import savemat

from repfl.datasets.core import registry
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.registry import Arrays, get
from tests.datasets.tiny import (
    Cifar,
    balanced,
    cifar_batches,
    debris,
    halves,
    images,
    official,
    picture_folder,
    shrink,
    tarred,
    zipped,
)


def refused(name: str, source: Path | str, root: Path) -> str:
    """The one line with which an import is refused; nothing may stay behind."""
    with pytest.raises(DataError) as caught:
        prepare.import_files(name, source, root)
    assert "\n" not in str(caught.value)
    assert debris(root) == []
    assert not prepare.is_prepared(name, root)
    return str(caught.value)


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


@pytest.mark.parametrize(
    ("name", "evil"),
    [
        ("cifar10", "test_batch"),
        ("cifar10", "batches.meta"),
        ("cifar100", "train"),
        ("mini_imagenet", "mini-imagenet-cache-train.pkl"),
    ],
)
def test_no_pickle_but_an_official_one_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, name: str, evil: str
) -> None:
    source, owned = tmp_path / "source", tmp_path / "owned"
    if name.startswith("cifar"):
        kind = getattr(torchvision.datasets, name.upper())
        files = [file for file, _ in (*kind.train_list, *kind.test_list)]
        official(monkeypatch, kind, source, {file: {} for file in [*files, kind.meta["filename"]]})
    source.mkdir(exist_ok=True)
    (source / evil).write_bytes(pickle.dumps(Evil(owned)))
    assert f"{evil} is not the official file, which has MD5" in refused(name, source, root)
    assert not owned.exists()


# -- files of other kinds, as one table ------------------------------------------------------------

TRAIN = "train-images-idx3-ubyte"


def bomb(path: Path) -> Path:
    """An archive of a few kilobytes, with one file of many zeros."""
    zeros = bytes(10_000_000)
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(TRAIN, zeros)
        return path
    member = tarfile.TarInfo(TRAIN)
    member.size = len(zeros)
    with tarfile.open(path, "w:gz") as tar:
        tar.addfile(member, io.BytesIO(zeros))
    return path


def packed_arrays(path: Path) -> Path:
    pictures, labels = np.zeros((10**4, 28, 28, 1), np.uint8), np.zeros(10**4, int)
    np.savez_compressed(path, train_images=pictures, train_labels=labels)
    return path


def packed_files(folder: Path) -> Path:
    folder.mkdir()
    content = gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 10**4, 28, 28) + bytes(7_840_000))
    for split in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            (folder / f"{split}-{what}-ubyte.gz").write_bytes(content)
    return folder


def encrypted(path: Path) -> Path:
    """A zip file that says of its only member that it is encrypted."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(TRAIN, b"0" * 100)
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag in the local header, and in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    return path


def other_mat(folder: Path) -> Path:
    folder.mkdir()
    for split in ("train", "test"):
        savemat(folder / f"{split}_32x32.mat", {"X": np.zeros((32, 32, 3, 1)), "y": [1]})
    return folder


def looped(path: Path) -> Path:
    path.symlink_to(path)
    return path


def outside(path: Path) -> Path:
    """An archive that would write beside its folder."""
    (path.parent / "file").write_text("x")
    with tarfile.open(path, "w") as file:
        file.add(path.parent / "file", "../../escaped")
    return path


def objects(path: Path) -> Path:
    held: Any = {"train_images": np.array([object()]), "train_labels": np.zeros(1, int)}
    np.savez(path, **held)
    return path


def lorries(folder: Path) -> Path:
    dataset = get("cifar10")
    picture_folder(folder / "train", balanced(dataset, 1), [*dataset.classes[:-1], "lorry"])
    return folder


def small_pictures(folder: Path) -> Path:
    small = Arrays(images(10, (16, 16, 3)), np.arange(10))
    picture_folder(folder / "train", small, get("cifar10").classes)
    return folder


def empty(folder: Path) -> Path:
    folder.mkdir()
    return folder


def changed(**arrays: np.ndarray) -> Callable[[Path], Path]:
    """The tiny CIFAR-10 with some arrays exchanged."""

    def write(path: Path) -> Path:
        with np.load(path.with_name("cifar10.npz")) as file:
            np.savez(path, **{**file, **arrays})
        return path

    return write


def whatever(path: Path) -> Path:
    return path


ONE = {"val_images": np.zeros((1, 32, 32, 3), np.uint8), "val_labels": np.zeros(1, int)}
HOSTILE: list[tuple[str, str, Callable[[Path], Path], str]] = [
    # MNIST of twenty pictures: its files may unpack to 4 * 20 * (28 * 28 + 8) = 63,360 bytes
    ("mnist", "m.zip", bomb, "10,000,000 bytes or more; the dataset needs less than 63,360"),
    ("mnist", "m.tar.gz", bomb, "10,000,000 bytes or more; the dataset needs less than 63,360"),
    ("mnist", "mnist.npz", packed_arrays, "unpacks to 7,840,128 bytes or more"),
    ("mnist", "idx", packed_files, "unpacks to 63,361 bytes or more"),
    ("mnist", "mnist.zip", encrypted, "encrypted"),
    ("svhn", "svhn", other_mat, "is not the official file"),
    ("svhn", "loop", looped, "does not exist"),
    ("svhn", "~nobody-has-this-name", whatever, "does not exist"),
    ("cifar10", "evil.tar", outside, "cannot read"),
    ("cifar10", "objects.npz", objects, "cannot read"),
    ("cifar10", "lorries", lorries, "not named after a class"),
    ("cifar10", "small", small_pictures, "is 16x16, not 32x32"),
    ("cifar10", "empty", empty, "cifar10 comes from https://"),
    ("cifar10", "nowhere", whatever, "does not exist"),
    ("cifar10", "x.npz", changed(train_images=np.zeros((30, 16, 16, 3), np.uint8)), "(16, 16, 3)"),
    ("cifar10", "x.npz", changed(train_images=np.zeros((30, 32, 32, 3))), "float64, not uint8"),
    ("cifar10", "x.npz", changed(train_labels=np.full(30, 10)), "from 10 to 10, not from 0 to 9"),
    ("cifar10", "x.npz", changed(train_labels=np.zeros(30)), "labels are float64, not integers"),
    ("cifar10", "x.npz", changed(train_labels=np.zeros(29, int)), "30 images but 29 labels"),
    ("cifar10", "x.npz", changed(**ONE), "cifar10 has train, test"),
]


@pytest.mark.parametrize(("name", "file", "make", "words"), HOSTILE)
def test_files_that_are_not_the_dataset_cost_one_line(
    cifar: Cifar,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    root: Path,
    name: str,
    file: str,
    make: Callable[[Path], Path],
    words: str,
) -> None:
    shrink(monkeypatch, "mnist", {"train": 10, "test": 10}, size=0)
    source = Path(file) if file.startswith("~") else make(tmp_path / file)
    assert words in refused(name, source, root)
    assert not list(tmp_path.rglob("escaped"))


def test_embedded_data_are_not_imported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="comes with scikit-learn"):
        prepare.import_files("digits", tmp_path, tmp_path)


@pytest.mark.parametrize("keep", [10, 0.5, -500])
def test_a_truncated_file_is_refused(
    cifar: Cifar, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, keep: float
) -> None:
    dataset, source = cifar
    folder = tmp_path / "cifar-10-batches-py"
    batches = cifar_batches(monkeypatch, folder, **halves(dataset, 3, 2))
    archive = tarred(tmp_path / "cifar-10-python.tar.gz", batches)
    for path in (source, archive, zipped(tmp_path / "cifar.zip", batches)):
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content)) if isinstance(keep, float) else keep])
        assert "cannot read" in refused("cifar10", path, root)


def test_the_limit_leaves_space_for_official_files() -> None:
    for dataset in map(get, registry.names()):
        assert 4 * dataset.size <= dataset.max_bytes < 25e9


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_data_can_be_prepared_where_the_file_system_has_no_locks(
    cifar: Cifar, monkeypatch: pytest.MonkeyPatch, root: Path, number: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, "no locks here")

    _, source = cifar
    monkeypatch.setattr(fcntl, "flock", refuse)
    prepare.import_files("cifar10", source, root)
    assert open_dataset("cifar10", root).splits["test"] == range(30, 50)
    assert list((root / "scratch").iterdir()) == []
