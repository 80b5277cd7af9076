"""Data and partitions that other suites have written: saved folders of Hugging Face's `datasets`,
and who holds what as FL-bench, PFLlib and Flower Datasets have it.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from repfl.datasets.core import registry
from repfl.datasets.core.cache import Prepared, open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.files.client_file import positions, rule_from_file, write_clients
from repfl.datasets.core.files.custom import from_saved
from repfl.datasets.core.partition import ClientSplits, partition, resolve
from repfl.datasets.core.recipe import Partition
from repfl.datasets.core.registry import Arrays
from tests.datasets.tiny import Cifar, balanced, halves, holds, recipe

pytestmark = pytest.mark.usefixtures("forgotten")


# -- saved data sets -------------------------------------------------------------------------------


def png(image: np.ndarray) -> bytes:
    picture = io.BytesIO()
    Image.fromarray(image).save(picture, "PNG")
    return picture.getvalue()


def save(folder: Path, names: list[str], coarse: bool = True, **splits: Arrays) -> Path:
    """What `DatasetDict.save_to_disk` writes, in two files per split."""
    folder.mkdir()
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    features = {
        "img": {"_type": "Image"},
        "label": {"names": names, "_type": "ClassLabel"},
        "coarse": {"names": [*"ab"], "_type": "ClassLabel"},
    }
    features = features if coarse else {name: features[name] for name in ("img", "label")}
    for split, arrays in splits.items():
        root, files = folder / split, [f"data-0000{number}-of-00002.arrow" for number in (0, 1)]
        root.mkdir()
        (root / "dataset_info.json").write_text(json.dumps({"features": features}))
        state = {"_data_files": [{"filename": name} for name in files]}
        (root / "state.json").write_text(json.dumps(state))
        for name, part in zip(files, np.array_split(np.arange(len(arrays.labels)), 2), strict=True):
            pictures = [{"bytes": png(image), "path": None} for image in arrays.images[part]]
            labels = arrays.labels[part].tolist()
            table = pa.table({"img": pictures, "label": labels, "coarse": [0] * len(part)})
            with pa.ipc.new_stream(root / name, table.schema) as stream:
                stream.write_table(table)
    return folder


def test_a_saved_data_set_is_imported_by_the_names_of_its_classes(
    cifar: Cifar, tmp_path: Path, root: Path
) -> None:
    dataset, _ = cifar
    ours = halves(dataset, 3, 2)
    names = sorted(dataset.classes, reverse=True)
    number = np.array([names.index(name) for name in dataset.classes])
    theirs = {k: arrays._replace(labels=number[arrays.labels]) for k, arrays in ours.items()}
    prepare.import_files("cifar10", save(tmp_path / "saved", names, **theirs), root)
    assert holds(open_dataset("cifar10", root), ours)


def test_a_saved_data_set_of_ones_own_names_its_classes(
    cifar: Cifar, tmp_path: Path, root: Path
) -> None:
    names = [f"class {k}" for k in range(10)]
    splits = halves(cifar[0], 3, 2)
    splits["validation"] = splits["test"]
    folder = save(tmp_path / "saved", names, coarse=False, **splits)
    registry.register(from_saved("own", folder, shape=(32, 32, 3)))
    prepare.download("own", root)
    prepared = open_dataset("own", root)
    assert prepared.description.classes == tuple(names)
    assert [*prepared.splits] == ["train", "val", "test"]
    assert np.bincount(prepared.labels).tolist() == [7] * 10


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["owl", *"123456789"], "has a class 'owl'"),
        ([*"12"], "has 0 columns ClassLabel of 10 classes, not one; it has img"),
    ],
)
def test_other_classes_are_refused(
    names: list[str], words: str, cifar: Cifar, tmp_path: Path, root: Path
) -> None:
    train = balanced(cifar[0], 3)
    with pytest.raises(DataError, match=words):
        prepare.import_files("cifar10", save(tmp_path / "saved", names, train=train), root)


def test_without_the_package_the_hub_is_refused_in_one_line(
    cifar: Cifar, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="hf:some/cifar10 needs the package datasets") as refusal:
        prepare.import_files("cifar10", "hf:some/cifar10", root)
    assert "\n" not in str(refusal.value)


# -- who holds what --------------------------------------------------------------------------------


@pytest.fixture
def digits() -> Prepared:
    return open_dataset("digits")


def drawn(digits: Prepared, seed: int = 0) -> ClientSplits:
    """A partition, in the order of the prepared data set."""
    return partition(
        digits, recipe("client-dirichlet", 3, "digits", alpha=0.5, train=40, test=9), seed
    )


def test_a_partition_goes_to_a_file_and_back(digits: Prepared, tmp_path: Path) -> None:
    splits = drawn(digits)
    write_clients(splits, tmp_path / "clients.json")
    rule_from_file("mine", tmp_path / "clients.json")
    assert partition(digits, recipe("mine", 3, "digits"), 5).digest == splits.digest
    before = resolve(Partition("mine"))
    write_clients(drawn(digits, 1), tmp_path / "clients.json")
    rule_from_file("other", tmp_path / "clients.json")
    assert before != resolve(Partition("other"))  # hence other ids of cells
    with pytest.raises(DataError, match="has changed since it was read; restart Python"):
        partition(digits, recipe("mine", 3, "digits"), 5)


def test_samples_in_the_order_of_another_suite_are_found_in_ours(digits: Prepared) -> None:
    """Its own indices, as FL-bench has them, and pixels normalised and back, as of PFLlib."""
    splits = drawn(digits)
    order = np.random.default_rng(0).permutation(len(digits.labels))
    held = [[np.argsort(order)[index] for index in part] for part in (splits.train, splits.test)]
    normalised = ((digits.images[order] / 255 - 0.5) / 0.5).astype(np.float32)
    pixels = ((normalised * 0.5 + 0.5) * 255).round().astype(np.uint8)
    ours = positions(digits, pixels, digits.labels[order])
    found = ClientSplits.of(*([ours[index] for index in part] for part in held))
    assert found.digest == splits.digest


def test_samples_that_are_not_in_the_data_set_are_named(digits: Prepared) -> None:
    with pytest.raises(DataError, match="sample 1 of label 0 is not in digits"):
        positions(digits, np.stack([digits.images[0], 255 - digits.images[0]]), np.zeros(2, int))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "is no list of clients"),
        ('[{"train": [1]}]', "client 0 has the keys train; valid"),
        ('[{"train": [1.5], "test": [2]}]', "client 0 has an index that is no integer"),
        ('[{"train": [1], "test": [1]}]', "client 0 trains on a sample of its test"),
        ("[", "damaged, cut short"),
        ('[{"train": [1], "test": [2]}]', "has 1 clients"),
        ('[{"train": [1], "test": [2000]}, {"train": [1], "test": [2]}]', "has index 2000"),
    ],
)
def test_a_file_that_is_no_partition_is_refused_in_one_line(
    content: str, words: str, digits: Prepared, tmp_path: Path
) -> None:
    (tmp_path / "clients.json").write_text(content)

    def register_and_use() -> None:
        rule_from_file("mine", tmp_path / "clients.json")
        partition(digits, recipe("mine", 2, "digits"), 0)

    with pytest.raises(DataError, match=words) as refusal:
        register_and_use()
    assert "\n" not in str(refusal.value)
