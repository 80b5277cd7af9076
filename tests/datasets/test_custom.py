"""Data of one's own: what cannot be meant is refused in one line, and nothing vanishes without a
word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from repfl.datasets.core import cache, registry
from repfl.datasets.core.cache import open_dataset
from repfl.datasets.core.custom import from_arrays, from_folder
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.readers import read_classes
from repfl.datasets.core.registry import Arrays
from tests.datasets.tiny import images

Save = Callable[..., Path]
SHAPE = (8, 8, 1)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever a test registers is unknown again after it."""
    registry.get("digits")  # loads them all
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    yield
    cache._embedded.cache_clear()


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


@pytest.mark.parametrize("mode", [np.uint16, np.int32, np.float32])
def test_pictures_of_more_than_8_bits_are_not_clipped(pets: Save, mode: type) -> None:
    folder = pets("dog/deep.tiff", Image.fromarray(np.full((8, 8), 1000).astype(mode)))
    with pytest.raises(DataError, match=r"deep.tiff has more than 8 bits per pixel"):
        read(folder)


def test_several_pictures_in_one_file_are_refused(pets: Save) -> None:
    frames = [Image.fromarray(frame) for frame in images(2, (8, 8))]
    folder = pets("dog/all.gif", frames[0], save_all=True, append_images=frames[1:])
    with pytest.raises(DataError, match="holds 2 images"):
        read(folder)


def test_a_picture_that_cannot_be_read_is_not_left_out(pets: Save) -> None:
    with pytest.raises(DataError, match=r"1\.heic is no image that can be read; valid: .*\.png"):
        read(pets("dog/1.heic", b"?"))


def test_hidden_files_and_notes_are_no_pictures_and_hidden_folders_no_classes(pets: Save) -> None:
    for name in ("dog/._0.png", "dog/notes.txt", ".thumbnails/0.png", "__MACOSX/0.png"):
        folder = pets(name, b"?")
    assert read(folder).labels.tolist() == [0, 1]
    assert from_folder("pets", folder, shape=SHAPE).classes == ("cat", "dog")


def opened(make: Callable[[], Any], shape: tuple[int, int, int] = SHAPE) -> Any:
    registry.register(from_arrays("own", make, classes="ab", shape=shape))
    return open_dataset("own")


PART = Arrays(images(4, SHAPE), np.arange(4) % 2)


@pytest.mark.parametrize(
    ("splits", "words"),
    [
        ({"train": PART, "valid": PART, "test": PART}, "splits test, train, valid; valid: train"),
        ({"train": PART, "test": PART, "all": PART}, "splits all, test, train; valid: train"),
        ({"train": PART}, "splits train; valid: train and test"),
        (
            {"train": PART._replace(groups=np.arange(4) % 2), "test": PART},
            "test has no groups: give them for all splits or none",
        ),
    ],
)
def test_splits_that_do_not_go_together_are_refused(splits: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        opened(lambda: splits)


@pytest.mark.parametrize("made", [[1, 2], {"all": 3}, {"all": (1,)}])
def test_a_description_that_makes_something_else_is_told_so(made: Any) -> None:
    with pytest.raises(DataError, match="own: the function that makes it raised"):
        opened(lambda: made)


def test_a_fault_of_a_description_is_told_with_its_place() -> None:
    def make() -> Any:
        raise KeyError("pixels")

    with pytest.raises(
        DataError, match=r"raised KeyError: 'pixels' \(.*test_custom\.py, line \d+\)"
    ):
        opened(make)
