"""Data of one's own: what cannot be meant is refused in one line, and nothing vanishes without a
word.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from repfl.datasets.core import registry
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.files.custom import from_arrays, from_class, from_folder, from_npz
from repfl.datasets.core.files.readers import read_classes
from repfl.datasets.core.registry import Arrays
from tests.datasets.tiny import images

Save = Callable[..., Path]
SHAPE = (8, 8, 1)


pytestmark = pytest.mark.usefixtures("forgotten")


@pytest.fixture
def pets(tmp_path: Path) -> Save:
    """Class folders with one picture each; call it to add another one."""
    folder = tmp_path / "pets"

    def save(name: str, picture: Image.Image | bytes, **how: Any) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture) if isinstance(picture, bytes) else picture.save(path, **how)
        return folder

    for name in ("cat", "dog"):
        save(f"{name}/0.png", Image.fromarray(images(1, (8, 8))[0]))
    return save


def read(folder: Path) -> Arrays:
    return read_classes(folder, ("cat", "dog"), SHAPE, resize=True)


DEEP = np.full((8, 8), 1000)


@pytest.mark.parametrize(
    ("name", "picture", "words"),
    [
        ("16.tiff", Image.fromarray(DEEP.astype(np.uint16)), "16.tiff has more than 8 bits"),
        ("32.tiff", Image.fromarray(DEEP.astype(np.int32)), "32.tiff has more than 8 bits"),
        ("float.tiff", Image.fromarray(DEEP.astype(np.float32)), "more than 8 bits per pixel"),
        ("1.heic", b"?", r"1\.heic is no image that can be read; valid: .*\.png"),
    ],
)
def test_pictures_are_neither_clipped_nor_left_out(
    pets: Save, name: str, picture: Any, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        read(pets(f"dog/{name}", picture))


def test_several_pictures_in_one_file_are_refused(pets: Save) -> None:
    frames = [Image.fromarray(frame) for frame in images(2, (8, 8))]
    folder = pets("dog/all.gif", frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match="holds 2 images"):
        read(folder)


def test_hidden_files_and_notes_are_no_pictures_and_hidden_folders_no_classes(pets: Save) -> None:
    for name in ("dog/._0.png", "dog/notes.txt", ".thumbnails/0.png", "__MACOSX/0.png"):
        folder = pets(name, b"?")
    assert read(folder).labels.tolist() == [0, 1]
    assert from_folder("pets", folder, shape=SHAPE).classes == ("cat", "dog")


def opened(make: Callable[[], Any], shape: Any = SHAPE) -> Any:
    registry.register(from_arrays("own", make, classes="ab", shape=shape))
    return open_dataset("own")


PART = Arrays(images(4, SHAPE), np.arange(4) % 2)


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ({"train": PART, "valid": PART, "test": PART}, "splits test, train, valid; valid: train"),
        ({"train": PART, "test": PART, "all": PART}, "splits all, test, train; valid: train"),
        ({"train": PART}, "splits train; valid: train and test"),
        ({"train": PART._replace(groups=PART.labels), "test": PART}, "test has no groups: give"),
        ({"all": (images(4, SHAPE), np.arange(3))}, "4 inputs have 3 labels"),
        ({"all": (images(4, SHAPE) / 255, np.arange(4) % 2)}, "not uint8"),
        ({"all": (images(4, SHAPE), np.arange(4) / 2)}, "not integers"),
        ({"all": (images(4, SHAPE), np.zeros(4, int))}, "no sample of class 'b'"),
        (
            {"all": (images(4, SHAPE), np.eye(4, dtype=int))},
            r"\[4, 4\], not one integer per sample",
        ),
    ],
)
def test_arrays_that_are_not_as_described_are_refused(splits: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        opened(lambda: splits)


@pytest.mark.parametrize("shape", [(1, 8, 8, 3), (8, 6, 1), ()])
def test_a_shape_of_neither_images_nor_features_is_refused(shape: Any) -> None:
    with pytest.raises(DataError, match="square images, \\(channels, length\\) of signals, or"):
        from_arrays("own", dict, classes="ab", shape=shape)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (np.zeros((4, 2)), r"float64 \[4, 2\], not numbers \[n, 3\]"),
        (np.zeros((4, 3), complex), "not numbers"),
        (np.full((4, 3), "x"), "not numbers"),
        (np.full((4, 3), np.nan), "not all finite"),
        (np.full((4, 3), 1e300), "not all finite numbers of float32"),
    ],
)
def test_features_that_are_no_numbers_of_float32_are_refused(
    features: np.ndarray, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        opened(lambda: {"all": (features, np.arange(4) % 2)}, shape=(3,))


def test_a_fault_of_a_description_is_told_with_its_place() -> None:
    def make() -> Any:
        raise KeyError("pixels")

    place = r"raised KeyError: 'pixels' \(.*test_custom\.py, line \d+\)"
    with pytest.raises(DataError, match=place):
        opened(make)


# -- what is prepared ------------------------------------------------------------------------------


def test_groups_and_origins_of_embedded_data_are_kept() -> None:
    part = Arrays(images(12, SHAPE), np.arange(12) % 2, np.arange(12) // 6, np.arange(12))
    how: Any = {"classes": "ab", "shape": SHAPE, "groups": ("x", "y")}
    registry.register(from_arrays("own", lambda: {"all": part}, **how))
    held = open_dataset("own")
    assert held.groups is not None
    assert (order := held.source_ids) is not None
    assert (held.images == part.images[order]).all()
    assert (held.groups == np.arange(12)[order] // 6).all()


@pytest.mark.parametrize(
    ("names", "words"), [((), "all has groups, and own no names"), (("x",), "from 100 to 103")]
)
def test_groups_without_names_or_beyond_them_are_refused(names: Any, words: str) -> None:
    part = Arrays(images(4, SHAPE), np.arange(4) % 2, np.arange(4) + 100)
    how: Any = {"classes": "ab", "shape": SHAPE, "groups": names}
    registry.register(from_arrays("own", lambda: {"all": part}, **how))
    with pytest.raises(DataError, match=words):
        open_dataset("own")


def test_features_of_an_npz_are_prepared_and_read_again_when_they_change(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).standard_normal((10, 5)).astype(np.float32), np.arange(10) % 2
    held = {"train_features": x, "train_labels": y, "test_features": x, "test_labels": y}
    np.savez(tmp_path / "x.npz", **held, train_groups=y, test_groups=y)
    how: Any = {"classes": "ab", "shape": (5,), "groups": ("u", "v")}
    registry.register(from_npz("vectors", tmp_path / "x.npz", **how))
    prepare.download("vectors", tmp_path)
    found = open_dataset("vectors", tmp_path)
    assert (found.images.dtype, found.images.shape) == (np.float32, (20, 1, 1, 5))
    assert (np.asarray(found.groups) == np.asarray(found.labels)).all()
    assert sorted(found.images[:10, 0, 0, 0].tolist()) == sorted(x[:, 0].tolist())
    np.savez(tmp_path / "x.npz", **held, train_groups=1 - y, test_groups=y)
    prepare.download("vectors", tmp_path)
    dealt = open_dataset("vectors", tmp_path).fingerprints
    assert {k for k in dealt if dealt[k] != found.fingerprints[k]} == {"groups"}
    np.savez(tmp_path / "x.npz", **{**held, "train_features": x + 1})
    with pytest.raises(DataError, match=r"x\.npz has changed since it was read: run `repfl"):
        open_dataset("vectors", tmp_path)
    prepare.download("vectors", tmp_path)
    assert open_dataset("vectors", tmp_path).fingerprints != found.fingerprints


@pytest.mark.parametrize("splits", [("train", "test"), ("",)])
def test_a_folder_of_images_of_any_size_is_a_data_set(
    tmp_path: Path, splits: tuple[str, ...]
) -> None:
    for split in splits:
        for size, name in ((9, "cat"), (12, "dog")):
            place = tmp_path / "pets" / split / name
            place.mkdir(parents=True)
            for index in range(3):
                picture = Image.fromarray(np.full((size, size, 3), 10 * index, np.uint8))
                picture.save(place / f"{index}.png")
    registry.register(from_folder("pets", tmp_path / "pets", shape=(8, 8, 3)))
    prepare.download("pets", tmp_path / "root")
    found = open_dataset("pets", tmp_path / "root")
    assert found.images.shape == (6 * len(splits), 8, 8, 3)
    assert list(found.splits) == (["train", "test"] if len(splits) > 1 else ["all"])
    picture.save(place / "3.png")
    with pytest.raises(DataError, match="pets has changed since it was read: run `repfl"):
        open_dataset("pets", tmp_path / "root")
    prepare.download("pets", tmp_path / "root")
    assert len(open_dataset("pets", tmp_path / "root").images) == 6 * len(splits) + 1
    (tmp_path / "pets").rename(tmp_path / "elsewhere")
    assert len(open_dataset("pets", tmp_path / "root").images) == 6 * len(splits) + 1


def test_a_class_of_torchvision_is_a_data_set(tmp_path: Path) -> None:
    how = {"size": 20, "image_size": (3, 8, 8), "num_classes": 2}
    name = "torchvision.datasets:FakeData"
    registry.register(from_class("fake", name, classes="ab", shape=(8, 8, 3), options=how))
    prepare.download("fake", tmp_path)
    assert open_dataset("fake", tmp_path).images.shape == (20, 8, 8, 3)
    with pytest.raises(DataError, match="its description says"):
        prepare.import_files("fake", tmp_path, tmp_path)


class Medical:
    """Does what `medmnist.BloodMNIST` does, without a network."""

    def __init__(self, split: str, download: bool = False, root: str = "") -> None:
        assert download
        assert Path(root).is_dir()
        self.size = {"train": 8, "val": 2, "test": 4}[split]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[Image.Image, np.ndarray]:
        return Image.fromarray(images(8, (8, 8))[index]), np.array([index % 2])


def test_a_class_of_medmnist_gets_its_split_and_folder(tmp_path: Path) -> None:
    splits = ("train", "val", "test")
    registry.register(from_class("blood", Medical, classes="ab", shape=SHAPE, splits=splits))
    prepare.download("blood", tmp_path)
    spans = open_dataset("blood", tmp_path).splits
    assert {split: len(span) for split, span in spans.items()} == {"train": 8, "val": 2, "test": 4}
