"""Readers for the formats in which people hold image datasets: .npz, idx, .mat, pickles, image
folders, and archives of these.
"""

from __future__ import annotations

import gzip
import pickle
import re
import shutil
import struct
import tarfile
import tempfile
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from repfl.datasets.core.canonical import Arrays
from repfl.datasets.core.errors import DataError, nearest

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
LEAST = 512
"""Bytes that a member of an archive counts for at least, since files take room whatever is in them.
"""
PICTURES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".pgm", ".ppm"}
BESIDE = {".txt", ".md", ".csv", ".json", ".xml", ".html", ".db", ".ini"}
"""Endings of files that lie beside pictures and are none."""
DEEP = ("I", "F")
"""Modes in which Pillow holds pictures of more than 8 bits; it would clip them."""
FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}  # a split's folder


class NothingFoundError(DataError):
    """A folder holds no file that a reader knows."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises into one line."""
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    # readers of other people raise whatever they like, of encrypted or newer files as well
    except Exception as error:
        raise DataError(
            f"cannot read {path}: damaged, cut short or not as expected ({type(error).__name__}:"
            f" {error})"
        ) from error


def locate(folder: Path, *file_names: str) -> Path | None:
    """The first of some file names anywhere under a folder, in any case."""
    wanted = [name.lower() for name in file_names]
    found = sorted(
        (path for path in folder.rglob("*") if path.name.lower() in wanted and path.is_file()),
        key=lambda path: len(path.parts),
    )
    return min(found, key=lambda path: wanted.index(path.name.lower())) if found else None


def need(folder: Path, *file_names: str) -> Path:
    """As `locate`, or NothingFoundError."""
    path = locate(folder, *file_names)
    if path is None:
        raise NothingFoundError(f"{folder} holds no {' or '.join(file_names)}")
    return path


def as_arrays(images: np.ndarray, labels: np.ndarray, **sides: np.ndarray) -> Arrays:
    """Images as uint8 [n, H, W, C] and labels as int64 [n], refusing what would lose
    information.
    """
    if images.dtype != np.uint8:
        raise DataError(f"images are {images.dtype}, not uint8: keep the original pixel values")
    labels = np.asarray(labels).reshape(-1)
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"labels are {labels.dtype}, not integers")
    if len(labels) != len(images):
        raise DataError(f"{len(images)} images but {len(labels)} labels")
    return Arrays(
        images if images.ndim == 4 else images[..., None], labels.astype(np.int64), **sides
    )


# -- archives --------------------------------------------------------------------------------------


def is_archive(path: Path) -> bool:
    """Whether a file is unpacked before it is read."""
    return path.name.lower().endswith(ARCHIVES)


@contextmanager
def unpacked(archives: Sequence[Path], scratch: Path, room: int) -> Iterator[Path]:
    """A temporary folder with the content of some archives, `room` bytes at most; it is removed
    whatever happens.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".unpack-", dir=scratch))
    try:
        for archive in archives:
            with reading(archive):
                if archive.name.lower().endswith(".zip"):
                    _unzip(archive, folder, room)
                else:
                    _untar(archive, folder, room)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unzip(archive: Path, folder: Path, room: int) -> None:
    with zipfile.ZipFile(archive) as file:
        _fit(archive, file, room)
        file.extractall(folder)


def _fit(archive: Path, file: zipfile.ZipFile, room: int) -> None:
    """Refuse a zip file that would unpack to more than a dataset can be; what it says of its
    members, none may exceed.
    """
    if (size := sum(max(member.file_size, LEAST) for member in file.infolist())) > room:
        raise _too_large(archive, size, room)


def _untar(archive: Path, folder: Path, room: int) -> None:
    size = 0

    def fits(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        nonlocal size
        size += max(member.size, LEAST)
        if size > room:
            raise _too_large(archive, size, room)
        return tarfile.data_filter(member, path)

    with tarfile.open(archive) as file:
        file.extractall(folder, filter=fits)


def _too_large(archive: Path, size: int, room: int) -> DataError:
    return DataError(
        f"{archive} unpacks to {size:,} bytes or more; the dataset needs less than {room:,}: get"
        " the original file"
    )


# -- single formats --------------------------------------------------------------------------------


def read_npz(path: Path, room: int) -> dict[str, Arrays]:
    """`<split>_images` and `<split>_labels` for the splits train, val and test (or all), `room`
    bytes at most.
    """
    with reading(path), np.load(path, allow_pickle=False) as file:
        _fit(path, file.zip, room)
        splits = {name.removesuffix("_images") for name in file.files if name.endswith("_images")}
        if not splits:
            found = ", ".join(file.files) or "nothing"
            raise DataError(
                f"{path} has no train_images, train_labels, test_images, test_labels; it has"
                f" {found}"
            )
        return {
            split: as_arrays(file[f"{split}_images"], file[f"{split}_labels"]) for split in splits
        }


def read_idx(path: Path, room: int) -> np.ndarray:
    """An idx file of unsigned bytes, plain or gzipped, `room` bytes at most."""
    with reading(path):
        opener: Callable[..., Any] = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rb") as file:
            zero, kind, dimensions = struct.unpack(">HBB", file.read(4))
            if zero != 0 or kind != 8:
                raise ValueError("not an idx file of unsigned bytes")
            shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
            if (size := prod(shape)) > room:
                raise _too_large(path, size, room)
            return np.frombuffer(file.read(size + 1), np.uint8).reshape(shape)


# -- pickles: official files hold arrays of bytes and integers in lists and dicts, and nothing else


class _Type:
    """The type of an array as a pickle tells it: bytes or integers, whatever else is said of it."""

    def __init__(self, code: str, *_: Any) -> None:
        if not re.fullmatch(r"[iu][1248]", code):
            raise pickle.UnpicklingError(
                f"the file has an array of type {code!r}, and no official file has one"
            )
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        order: Any = state[1]
        self.dtype = self.dtype.newbyteorder(order)


class _Array:
    """An array that is made of its bytes alone; NumPy itself would trust what the file says, and
    follow its pointers.
    """

    def __init__(self, *_: Any) -> None:
        self.array = np.zeros(0, np.uint8)

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        content = (
            data if isinstance(data, bytes) else data.encode("latin1")
        )  # Python 2 wrote its texts
        self.array = np.frombuffer(content, kind.dtype).reshape(
            shape, order="F" if fortran else "C"
        )

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array if dtype is None else self.array.astype(dtype)


def _number(kind: _Type, data: bytes) -> int:
    """A single integer of an array."""
    return int(np.frombuffer(data, kind.dtype)[0])


def _bytes(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes for Python 2."""
    return text.encode({"latin1": "latin1"}[encoding])


STAND_INS: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _number for core in ("core", "_core")},
    ("numpy", "dtype"): _Type,
    ("numpy", "ndarray"): None,  # only ever named
    ("_codecs", "encode"): _bytes,
    ("collections", "OrderedDict"): OrderedDict,
}


class _Unpickler(pickle.Unpickler):
    """Makes plain containers and the arrays above, nothing that could run code or read memory."""

    def find_class(self, module: str, name: str) -> Any:
        """Only what the official files need."""
        if (module, name) not in STAND_INS:
            raise pickle.UnpicklingError(
                f"the file asks for {module}.{name}, which no official file needs: do not trust it"
            )
        return STAND_INS[module, name]


def unpickle(file: IO[bytes]) -> Any:
    """The content of an official pickled file; arrays are to be taken with `np.asarray`."""
    return _Unpickler(file, encoding="latin1").load()


# -- folders of pictures ---------------------------------------------------------------------------


def read_pictures(
    folder: Path, classes: Sequence[str], shape: tuple[int, int, int], resize: bool, whole: bool
) -> dict[str, Arrays]:
    """`<split>/<class>/*.png`, or `<class>/*.png` where a dataset has no official split."""
    roots = (
        {"all": folder}
        if whole
        else {split: root for split, names in FOLDERS.items() if (root := _child(folder, names))}
    )
    if not roots:
        raise NothingFoundError(
            f"{folder} holds neither official files nor folders train/ and test/ of pictures"
        )
    return {split: read_classes(root, classes, shape, resize) for split, root in roots.items()}


def _child(folder: Path, names: Sequence[str]) -> Path | None:
    """A sub-folder with one of some names, at any depth; the shallowest wins."""
    found = [path for path in folder.rglob("*") if path.is_dir() and path.name.lower() in names]
    return min(found, key=lambda path: (len(path.parts), path.name), default=None)


def read_classes(
    folder: Path, classes: Sequence[str], shape: tuple[int, int, int], resize: bool
) -> Arrays:
    """The pictures of one split or domain."""
    found = list_classes(folder, classes)
    images = load_pictures([path for path, _ in found], shape, resize)
    return Arrays(images, np.array([label for _, label in found], np.int64))


def list_classes(folder: Path, classes: Sequence[str]) -> list[tuple[Path, int]]:
    """Pictures and labels of class folders, named by the class or its index."""
    known = _names(classes)
    found: list[tuple[Path, int]] = []
    for child in class_folders(folder):
        label = known.get(child.name, known.get(plain(child.name)))
        if label is None:
            raise DataError(f"{child} is not named after a class: {nearest(child.name, classes)}")
        found += [(path, label) for path in _pictures(child)]
    if not found:
        raise NothingFoundError(f"{folder} holds no pictures in class folders")
    return found


def class_folders(folder: Path) -> list[Path]:
    """The folders in a folder, but for hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not _hidden(path, folder))


def _pictures(folder: Path) -> Iterator[Path]:
    """All pictures below a folder; a file that could be one and cannot be read must not be left out
    without a word.
    """
    for path in sorted(folder.rglob("*")):
        ending = path.suffix.lower()
        if _hidden(path, folder) or not path.is_file() or ending in BESIDE:
            continue
        if ending not in PICTURES:
            raise DataError(
                f"{path} is no picture that can be read; valid: {', '.join(sorted(PICTURES))}"
            )
        yield path


def _hidden(path: Path, folder: Path) -> bool:
    """Whether a path goes through a hidden folder, or is a hidden file."""
    return any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)


def load_pictures(paths: Sequence[Path], shape: tuple[int, int, int], resize: bool) -> np.ndarray:
    """Picture files as one array  [n, H, W, C]."""
    images = np.empty((len(paths), *shape), np.uint8)
    for image, path in zip(images, paths, strict=True):
        with reading(path):
            image[:] = read_picture(path, shape, resize)
    return images


def plain(name: str) -> str:
    """A name without case, blanks and punctuation."""
    return "".join(character for character in name.lower() if character.isalnum())


def _names(classes: Sequence[str]) -> Mapping[str, int]:
    """Every spelling under which a class folder is recognised; exact names win over loose ones, and
    those over indices.
    """
    loose = [plain(name) for name in classes]
    known = {str(label): label for label in range(len(classes))}
    known |= {name: label for label, name in enumerate(loose) if loose.count(name) == 1}
    return known | {name: label for label, name in enumerate(classes)}


def read_picture(source: Any, shape: tuple[int, int, int], resize: bool = False) -> np.ndarray:
    """One picture as uint8 [H, W, C], from a path or an open file; resized (bilinear) only where
    the dataset's pictures vary in size.
    """
    from PIL import Image

    with Image.open(source) as file:
        return as_pixels(file, source, shape, resize)


def as_pixels(
    picture: Any, source: Any, shape: tuple[int, int, int], resize: bool = False
) -> np.ndarray:
    """An open picture as uint8 [H, W, C]."""
    from PIL import Image

    height, width, channels = shape
    if picture.mode.startswith(DEEP):
        raise DataError(
            f"{source} has more than 8 bits per pixel (mode {picture.mode}), and they would be cut"
            " off: bring its values to 0..255 first"
        )
    if getattr(picture, "n_frames", 1) > 1:
        raise DataError(f"{source} holds {picture.n_frames} pictures: save each in a file")
    picture = picture.convert("L" if channels == 1 else "RGB")
    if picture.size != (width, height):
        if not resize:
            raise DataError(
                f"{source} is {picture.size[0]}x{picture.size[1]}, not {width}x{height}"
            )
        picture = picture.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(picture, np.uint8).reshape(shape)
