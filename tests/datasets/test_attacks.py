"""Files that mean harm, or that no reader can read: one line, nothing followed, nothing filled."""

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
from repfl.datasets.core.registry import get
from tests.datasets.tiny import Cifar, official, shrink

# -- pickles ---------------------------------------------------------------------------------------


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
    with pytest.raises(DataError, match=f"{evil} is not the official file, which has MD5") as error:
        prepare.import_files(name, source, root)
    assert "\n" not in str(error.value)
    assert not owned.exists()


# -- archives --------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST of twenty pictures: its files may unpack to 4 * 20 * (28 * 28 + 8) = 63,360 bytes."""
    shrink(monkeypatch, "mnist", {"train": 10, "test": 10}, size=0)


def bomb(path: Path, inner: str, size: int = 10_000_000) -> Path:
    """An archive of a few kilobytes, with one file of many zeros."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(inner, bytes(size))
    else:
        member = tarfile.TarInfo(inner)
        member.size = size
        with tarfile.open(path, "w:gz") as tar:
            tar.addfile(member, io.BytesIO(bytes(size)))
    return path


@pytest.mark.parametrize("name", ["mnist.zip", "mnist.tar.gz"])
def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, root: Path, small: None, name: str
) -> None:
    said = "unpacks to 10,000,000 bytes or more; the dataset needs less than 63,360"
    with pytest.raises(DataError, match=said):
        prepare.import_files("mnist", bomb(tmp_path / name, "train-images-idx3-ubyte"), root)


def test_packed_arrays_that_unpack_to_too_much_are_refused(
    tmp_path: Path, root: Path, small: None
) -> None:
    pictures, labels = np.zeros((10**4, 28, 28, 1), np.uint8), np.zeros(10**4, int)
    np.savez_compressed(tmp_path / "mnist.npz", train_images=pictures, train_labels=labels)
    with pytest.raises(DataError, match="unpacks to 7,840,128 bytes or more"):
        prepare.import_files("mnist", tmp_path / "mnist.npz", root)
    folder = tmp_path / "idx"
    folder.mkdir()
    content = gzip.compress(struct.pack(">HBB3I", 0, 8, 3, 10**4, 28, 28) + bytes(7_840_000))
    for split in ("train", "t10k"):
        for what in ("images-idx3", "labels-idx1"):
            (folder / f"{split}-{what}-ubyte.gz").write_bytes(content)
    with pytest.raises(DataError, match="unpacks to 63,361 bytes or more"):
        prepare.import_files("mnist", folder, root)


def test_the_limit_leaves_space_for_official_files() -> None:
    for dataset in map(get, registry.names()):
        assert 4 * dataset.size <= dataset.max_bytes < 25e9


# -- what readers do not read ----------------------------------------------------------------------


def encrypted(path: Path) -> Path:
    """A zip file that says of its only member that it is encrypted."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("train-images-idx3-ubyte", b"0" * 100)
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


def looped(folder: Path) -> Path:
    folder.mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("mnist", lambda here: encrypted(here / "mnist.zip"), "encrypted"),
        ("svhn", lambda here: other_mat(here / "svhn"), "is not the official file"),
        ("svhn", lambda here: looped(here / "svhn"), "does not exist"),
        ("svhn", lambda here: Path("~nobody-has-this-name/svhn"), "does not exist"),
    ],
)
def test_files_that_no_reader_reads_cost_one_line(
    tmp_path: Path, root: Path, name: str, make: Any, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        prepare.import_files(name, make(tmp_path), root)
    assert "\n" not in str(caught.value)


# -- locks -----------------------------------------------------------------------------------------


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
