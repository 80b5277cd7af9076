"""Readers: archives, official files, .npz, idx, and folders of images."""

from __future__ import annotations

import gzip
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from repfl.datasets.core.errors import DataError, suggest
from repfl.datasets.core.registry import Arrays, Dataset

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MIN_MEMBER_BYTES = 512
"""Size that a member of an archive counts for at least; empty files take space too."""
IMAGE_SUFFIXES = {
    *(".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".tif", ".tiff", ".pgm", ".ppm")
}
IGNORED_SUFFIXES = {".txt", ".md", ".csv", ".json", ".xml", ".html", ".db", ".ini"}
"""Suffixes of non-image files that are ignored."""
HIGH_BIT_MODES = ("I", "F")
"""Pillow's modes of more than 8 bits; converting them would clip."""
SPLIT_FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing"),
}


class NothingFoundError(DataError):
    """A folder contains no file that a reader knows."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever a damaged file raises into one line."""
    try:
        yield
    except DataError:
        raise
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error
    # libraries raise all kinds of errors, also of encrypted files and newer formats
    except Exception as error:
        raise DataError(
            f"cannot read {path}: damaged, cut short or not as expected ({type(error).__name__}:"
            f" {error})"
        ) from error


def find_file(folder: Path, *names: str) -> Path:
    """Return the first of some file names anywhere under a folder, in any case."""
    files = sorted(
        (path for path in folder.rglob("*") if path.is_file()), key=lambda path: len(path.parts)
    )
    for name in names:
        for path in files:
            if path.name.lower() == name.lower():
                return path
    raise NothingFoundError(f"{folder} holds no {' or '.join(names)}")


def find_official(folder: Path, *names: str, md5: str) -> Path:
    """Return a file as `find_file` does; raise unless its MD5 is the published one.

    Pickles run code when they are loaded, so no other file may be.
    """
    from torchvision.datasets.utils import check_integrity

    path = find_file(folder, *names)
    if not check_integrity(path, md5):
        raise DataError(f"{path} is not the official file, which has MD5 {md5}: do not trust it")
    return path


def as_arrays(images: np.ndarray, labels: np.ndarray, **sides: np.ndarray) -> Arrays:
    """Return images as uint8 [n, H, W, C] and labels as int64 [n]; raise if either loses values."""
    if images.dtype != np.uint8:
        raise DataError(f"images are {images.dtype}, not uint8: keep the original pixel values")
    labels = np.asarray(labels).reshape(-1)
    if not np.issubdtype(labels.dtype, np.integer):
        raise DataError(f"labels are {labels.dtype}, not integers")
    if len(labels) != len(images):
        raise DataError(f"{len(images)} images but {len(labels)} labels")
    images = images if images.ndim == 4 else images[..., None]
    return Arrays(images, labels.astype(np.int64), **sides)


# -- archives --------------------------------------------------------------------------------------


def is_archive(path: Path) -> bool:
    """Return whether a file has to be unpacked first."""
    return path.is_file() and path.name.lower().endswith(ARCHIVES)


def unpack(archive: Path, folder: Path, max_bytes: int) -> None:
    """Unpack an archive; no member can be larger than its header says."""
    with reading(archive):
        if archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as packed:
                _check_size(archive, (member.file_size for member in packed.infolist()), max_bytes)
                packed.extractall(folder)
        else:
            with tarfile.open(archive) as tar:
                _check_size(archive, (member.size for member in tar), max_bytes)
                tar.extractall(folder, filter="data")


def _check_size(path: Path, members: Iterable[int], max_bytes: int) -> None:
    """Raise as soon as the members of a file add up to more than a dataset needs."""
    size = 0
    for member in members:
        size += max(member, MIN_MEMBER_BYTES)
        if size > max_bytes:
            raise DataError(
                f"{path} unpacks to {size:,} bytes or more; the dataset needs less than"
                f" {max_bytes:,}: get the original file"
            )


# -- single files ----------------------------------------------------------------------------------


def read_npz(path: Path, dataset: Dataset) -> dict[str, Arrays]:
    """Read what the dataset reads, else `<split>_images` and `<split>_labels` for the splits train,
    val and test, or all.
    """
    with reading(path), np.load(path, allow_pickle=False) as file:
        _check_size(path, (member.file_size for member in file.zip.infolist()), dataset.max_bytes)
        if dataset.from_npz is not None:
            return dataset.from_npz(file)
        splits = {name.removesuffix("_images") for name in file.files if name.endswith("_images")}
        if not splits:
            raise DataError(
                f"{path} has no train_images, train_labels, test_images, test_labels; it has"
                f" {', '.join(file.files) or 'nothing'}"
            )
        return {
            split: as_arrays(file[f"{split}_images"], file[f"{split}_labels"]) for split in splits
        }


def read_idx(path: Path, max_bytes: int) -> np.ndarray:
    """Read an idx file, plain or gzipped, with torchvision."""
    from torchvision.datasets.mnist import read_sn3_pascalvincent_tensor

    with reading(path), tempfile.TemporaryDirectory() as folder:
        plain = path
        if path.suffix == ".gz":
            with gzip.open(path) as packed:
                content = packed.read(max_bytes + 1)
            _check_size(path, [len(content)], max_bytes)
            plain = Path(folder, path.stem)
            plain.write_bytes(content)
        array: np.ndarray = read_sn3_pascalvincent_tensor(str(plain)).numpy()
        return array


# -- folders of images -----------------------------------------------------------------------------


def read_folder(
    folder: Path,
    classes: Sequence[str],
    shape: tuple[int, int, int],
    *,
    resize: bool,
    official_split: bool,
) -> dict[str, Arrays]:
    """Read `<split>/<class>/*.png`, or `<class>/*.png` without an official split."""
    roots = split_folders(folder.rglob("*")) if official_split else {"all": folder}
    if not roots:
        raise NothingFoundError(
            f"{folder} holds neither official files nor folders train/ and test/ of images"
        )
    return {split: read_classes(root, classes, shape, resize) for split, root in roots.items()}


def split_folders(paths: Iterable[Path]) -> dict[str, Path]:
    """Return the folder of each split; the shallowest wins."""
    folders = sorted(
        (path for path in paths if path.is_dir()), key=lambda path: (len(path.parts), path.name)
    )
    return {
        split: path
        for split, names in SPLIT_FOLDERS.items()
        for path in [path for path in folders if path.name.lower() in names][:1]
    }


def read_classes(
    folder: Path, classes: Sequence[str], shape: tuple[int, int, int], resize: bool
) -> Arrays:
    """Read the images of one split or domain."""
    members = list_classes(folder, classes)
    images = load_images([path for path, _ in members], shape, resize)
    return Arrays(images, np.array([label for _, label in members], np.int64))


def list_classes(folder: Path, classes: Sequence[str]) -> list[tuple[Path, int]]:
    """Return images and labels of class folders, which are named by the class or its index."""
    labels, members = labels_of_names(classes), list[tuple[Path, int]]()
    for child in class_folders(folder):
        label = labels.get(child.name, labels.get(plain(child.name)))
        if label is None:
            raise DataError(f"{child} is not named after a class: {suggest(child.name, classes)}")
        members += [(path, label) for path in _image_files(child)]
    if not members:
        raise NothingFoundError(f"{folder} holds no images in class folders")
    return members


def class_folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, except hidden ones."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and not _hidden(path, folder))


def _image_files(folder: Path) -> Iterator[Path]:
    """Return all images below a folder; raise if one cannot be read instead of omitting it."""
    for path in sorted(folder.rglob("*")):
        suffix = path.suffix.lower()
        if _hidden(path, folder) or not path.is_file() or suffix in IGNORED_SUFFIXES:
            continue
        if suffix not in IMAGE_SUFFIXES:
            raise DataError(
                f"{path} is no image that can be read; valid: {', '.join(sorted(IMAGE_SUFFIXES))}"
            )
        yield path


def _hidden(path: Path, folder: Path) -> bool:
    """Return whether a path is hidden or lies in a hidden folder."""
    return any(part.startswith((".", "__MACOSX")) for part in path.relative_to(folder).parts)


def plain(name: str) -> str:
    """Return a name without case, blanks and punctuation."""
    return "".join(character for character in name.lower() if character.isalnum())


def labels_of_names(classes: Sequence[str]) -> Mapping[str, int]:
    """Map every accepted name of a class to its label: exact, then loose, then the index."""
    loose = [plain(name) for name in classes]
    labels = {str(label): label for label in range(len(classes))}
    labels |= {name: label for label, name in enumerate(loose) if loose.count(name) == 1}
    return labels | {name: label for label, name in enumerate(classes)}


def load_images(paths: Sequence[Path], shape: tuple[int, int, int], resize: bool) -> np.ndarray:
    """Load image files as one array  [n, H, W, C]."""
    from PIL import Image

    images = np.empty((len(paths), *shape), np.uint8)
    for image, path in zip(images, paths, strict=True):
        with reading(path), Image.open(path) as file:
            image[:] = as_pixels(file, path, shape, resize)
    return images


def as_pixels(
    image: Any, source: Path | str, shape: tuple[int, int, int], resize: bool
) -> np.ndarray:
    """Return a Pillow image as uint8 [H, W, C]; resize bilinearly only if allowed."""
    from PIL import Image

    height, width, channels = shape
    if image.mode.startswith(HIGH_BIT_MODES):
        raise DataError(
            f"{source} has more than 8 bits per pixel (mode {image.mode}), which would be clipped:"
            " scale its values to 0..255 first"
        )
    if getattr(image, "n_frames", 1) > 1:
        raise DataError(f"{source} holds {image.n_frames} images: save each in a file")
    image = image.convert("L" if channels == 1 else "RGB")
    if image.size != (width, height):
        if not resize:
            raise DataError(f"{source} is {image.size[0]}x{image.size[1]}, not {width}x{height}")
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(image, np.uint8).reshape(shape)
