"""Files that mean harm, or that no reader can read: one line, nothing followed, nothing filled."""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import pickle
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.datasets.core import prepare, registry
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.formats import unpickle
from repfl.datasets.core.registry import get
from repfl.datasets.core.store import locked, open_dataset
from tests.bench.conftest import ROOT, environment
from tests.datasets.tiny import idx_folder, shrink, tiny_cifar

# -- pickles ---------------------------------------------------------------------------------------


def text(word: str) -> bytes:
    return b"X" + struct.pack("<I", len(word)) + word.encode()


def dtype(code: str, state: bytes = b"") -> bytes:
    """The opcodes of a NumPy type, and what the file says of its insides."""
    return b"cnumpy\ndtype\n(" + text(code) + b"I00\nI01\ntR" + state


def poisoned() -> bytes:
    """A batch whose eight bytes NumPy takes for the address of an object."""
    field = b"}" + text("a") + b"(" + dtype("O") + b"K\x00ts"
    kind = dtype(
        "V8", b"(K\x03" + text("|") + b"N(" + text("a") + b"t" + field + b"K\x08K\x01K\x00tb"
    )
    start = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n(K\x00t" + text("b") + b"\x87R"
    content = b"c_codecs\nencode\n(" + text("A" * 8) + text("latin1") + b"tR"
    array = start + b"(K\x01(K\x01t" + kind + b"\x89" + content + b"tb"
    return b"\x80\x02}(" + text("data") + array + text("labels") + b"](K\x00eu."


def test_a_pickle_whose_bytes_are_taken_for_addresses_is_refused_and_crashes_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"):
        (folder / name).write_bytes(poisoned())
    command = [sys.executable, "-m", "repfl", "data", "import", "cifar10", "--from", str(folder)]
    where: dict[str, Any] = {"env": environment(REPFL_DATA=str(tmp_path / "root")), "cwd": ROOT}
    done = subprocess.run(command, capture_output=True, text=True, check=False, **where)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "an array of type 'V8'" in done.stderr


@pytest.mark.parametrize("kind", [np.uint8, np.int8, np.int64, np.dtype(">i4"), np.dtype(">u2")])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_bytes_and_integers_come_out_as_they_went_in(kind: Any, order: Any) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4), kind, order=order)
    content = OrderedDict(array=array, number=array[1, 2, 3], names=["a"])
    found = unpickle(io.BytesIO(pickle.dumps(content, protocol=2)))
    assert np.asarray(found["array"]).dtype == array.dtype
    assert np.array_equal(np.asarray(found["array"]), array)
    assert (found["number"], found["names"]) == (23, ["a"])


@pytest.mark.parametrize(
    "content", [np.array([None]), np.array(["a"]), np.zeros(1, [("a", "i4")]), np.zeros(1)]
)
def test_other_arrays_are_refused(content: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="no official file has one"):
        unpickle(io.BytesIO(pickle.dumps(content, protocol=2)))


# -- archives --------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> registry.Dataset:
    """MNIST of twenty pictures: its files may unpack to 63,360 bytes."""
    return shrink(monkeypatch, "mnist", {"train": 10, "test": 10}, size=0)


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
    tmp_path: Path, small: registry.Dataset, name: str
) -> None:
    assert small.room == 4 * 20 * (28 * 28 + 8)
    with pytest.raises(
        DataError, match="unpacks to 10,000,000 bytes or more; the dataset needs less than 63,360"
    ):
        prepare.bring("mnist", bomb(tmp_path / name, "train-images-idx3-ubyte"), tmp_path / "root")


def test_many_empty_files_are_too_much_as_well(tmp_path: Path, small: registry.Dataset) -> None:
    with zipfile.ZipFile(tmp_path / "mnist.zip", "w") as file:
        for k in range(200):
            file.writestr(f"{k}", b"")
    with pytest.raises(DataError, match="unpacks to 102,400 bytes"):
        prepare.bring("mnist", tmp_path / "mnist.zip", tmp_path / "root")


def test_packed_arrays_that_unpack_to_too_much_are_refused(
    tmp_path: Path, small: registry.Dataset
) -> None:
    np.savez_compressed(
        tmp_path / "mnist.npz",
        train_images=np.zeros((10**4, 28, 28, 1), np.uint8),
        train_labels=np.zeros(10**4, int),
    )
    with pytest.raises(DataError, match="unpacks to 7,920"):
        prepare.bring("mnist", tmp_path / "mnist.npz", tmp_path / "root")
    folder = idx_folder(tmp_path / "idx", {}, {})
    for name in (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    ):
        content = struct.pack(">HBB3I", 0, 8, 3, 10**4, 28, 28) + bytes(7_840_000)
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match="unpacks to 7,840,000 bytes"):
        prepare.bring("mnist", folder, tmp_path / "root")


def test_every_dataset_has_room_for_its_official_files() -> None:
    for name in registry.names():
        dataset = get(name)
        assert dataset.room >= 4 * dataset.size
        assert dataset.room < 25e9


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


def new_matlab(folder: Path) -> Path:
    """What MATLAB 7.3 writes: an HDF5 file behind a header of its own."""
    folder.mkdir()
    for split in ("train", "test"):
        header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
        (folder / f"{split}_32x32.mat").write_bytes(header.ljust(512, b"\0") + b"\x89HDF\r\n\x1a\n")
    return folder


def looped(folder: Path) -> Path:
    folder.mkdir()
    (folder / "loop").symlink_to(folder / "loop")
    return folder / "loop"


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("mnist", lambda here: encrypted(here / "mnist.zip"), "encrypted"),
        ("svhn", lambda here: new_matlab(here / "svhn"), "v7.3"),
        ("svhn", lambda here: looped(here / "svhn"), "does not exist"),
        ("svhn", lambda here: Path("~nobody-has-this-name/svhn"), "does not exist"),
    ],
)
def test_files_that_no_reader_reads_cost_one_line(
    tmp_path: Path, name: str, make: Any, words: str
) -> None:
    with pytest.raises(DataError, match=words) as caught:
        prepare.bring(name, make(tmp_path), tmp_path / "root")
    assert "\n" not in str(caught.value)


# -- locks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_data_can_be_prepared_where_the_file_system_has_no_locks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(number, "no locks here")

    _, source = tiny_cifar(monkeypatch, tmp_path)
    monkeypatch.setattr(fcntl, "flock", refuse)
    prepare.bring("cifar10", source, tmp_path / "root")
    assert open_dataset("cifar10", tmp_path / "root").splits["test"] == range(30, 50)
    assert list((tmp_path / "root" / "locks").iterdir()) == []
    marker = tmp_path / "root" / "locks" / "cifar10.lock"
    marker.write_text("4711\nfar-away\n")
    with (
        pytest.raises(DataError, match=r"cifar10\.lock says that process 4711 on far-away"),
        locked("cifar10", tmp_path / "root"),
    ):
        pass
