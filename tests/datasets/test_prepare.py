"""From files in the official formats to the cache."""

from __future__ import annotations

import pickle
from functools import partial
from hashlib import md5
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torchvision.datasets import CIFAR100, SVHN

from repfl.datasets import cifar10c, mini_imagenet, office_home
from repfl.datasets.core.cache import Prepared, open_dataset
from repfl.datasets.core.files import prepare
from repfl.datasets.core.registry import Arrays
from tests.datasets.tiny import (
    Cifar,
    cifar_batches,
    debris,
    few,
    halves,
    holds,
    idx_folder,
    images,
    medical,
    npy,
    official,
    picture_folder,
    shrink,
    tarred,
    two_editions,
    zipped,
)


def imported(name: str, source: Path, root: Path) -> Prepared:
    prepare.import_files(name, source, root)
    assert debris(root) == []
    return open_dataset(name, root)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("name", "train", "test"),
    [
        ("mnist", "train", "t10k"),
        ("fashion_mnist", "train", "t10k"),
        ("emnist_byclass", "emnist-byclass-train", "emnist-byclass-test"),
    ],
)
def test_idx_files_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, train: str, test: str, packed: bool
) -> None:
    _, splits = few(monkeypatch, name)
    prefixes = {"train": train, "test": test}
    folder = idx_folder(tmp_path / "official" / "raw", prefixes, splits, packed)
    archive = zipped(tmp_path / "gzip.zip", folder)
    for source in (tmp_path / "official", next(folder.iterdir()), archive):
        assert holds(imported(name, source, tmp_path / "root"), splits)


def test_cifar_10_is_read_from_its_archive_its_folder_an_npz_and_pictures(
    cifar: Cifar, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    dataset, source = cifar
    splits = halves(dataset, 3, 2)
    batches = cifar_batches(monkeypatch, tmp_path / "cifar-10-batches-py", **splits)
    archive = tarred(tmp_path / "cifar-10-python.tar.gz", batches)
    for split, arrays in splits.items():
        picture_folder(tmp_path / "pictures" / split, arrays, dataset.classes)
    marks = []
    pictures = tmp_path / "pictures"
    for origin in (source, batches, archive, pictures, zipped(tmp_path / "p.zip", pictures)):
        prepared = imported("cifar10", origin, root)
        assert holds(prepared, splits)
        marks.append(prepared.fingerprints)
    assert all(mark == marks[0] for mark in marks)


def test_cifar_100_takes_its_fine_labels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    dataset, splits = few(monkeypatch, "cifar100")
    contents: dict[str, Any] = {"meta": {"fine_label_names": list(dataset.classes)}}
    for split, arrays in splits.items():
        contents[split] = {
            "data": arrays.images.transpose(0, 3, 1, 2).reshape(len(arrays.labels), -1),
            "fine_labels": arrays.labels.tolist(),
            "coarse_labels": [0] * len(arrays.labels),
        }
    official(monkeypatch, CIFAR100, tmp_path, contents)
    assert holds(imported("cifar100", tmp_path, root), splits)


def test_svhn_s_label_ten_is_the_digit_zero(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    from scipy.io import savemat

    _, splits = few(monkeypatch, "svhn")
    for split, arrays in splits.items():
        labels = np.where(arrays.labels == 0, 10, arrays.labels)[:, None].astype(np.uint8)
        path = tmp_path / f"{split}_32x32.mat"
        savemat(path, {"X": arrays.images.transpose(1, 2, 3, 0), "y": labels})
        entry = ["", path.name, md5(path.read_bytes()).hexdigest()]
        monkeypatch.setitem(SVHN.split_list, split, entry)
    for source in (tmp_path, tmp_path / "train_32x32.mat"):
        assert holds(imported("svhn", source, root), splits)


@pytest.mark.parametrize(("per_class", "name"), [(3, "medmnist-2"), (2, "medmnist-3")])
def test_both_editions_of_medmnist_are_accepted_and_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path, per_class: int, name: str
) -> None:
    dataset = two_editions(monkeypatch, "organamnist")
    medical(tmp_path / "organmnist_axial.npz", dataset, per_class)
    prepared = imported("organamnist", tmp_path, root)
    assert prepared.edition == name
    assert list(prepared.splits) == ["train", "val", "test"]


def test_cifar_10_c_knows_corruption_severity_and_photograph(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    photos = 20
    shrink(monkeypatch, "cifar10c", {"all": 15 * 5 * photos})
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    labels = np.tile(np.arange(10), 2)
    (folder / "labels.npy").write_bytes(npy(np.tile(labels, 5)))
    pictures = {}
    for seed, name in enumerate(cifar10c.CORRUPTIONS):
        pictures[name] = images(5 * photos, (32, 32, 3), seed)
        (folder / f"{name}.npy").write_bytes(npy(pictures[name]))
    for source in (folder, tarred(tmp_path / "CIFAR-10-C.tar", folder)):
        prepared = imported("cifar10c", source, root)
        assert prepared.groups is not None
        assert prepared.source_ids is not None
        for k in (0, 123, 777, 1499):
            corruption, severity = prepared.description.groups[prepared.groups[k]].split("/")
            position = (int(severity) - 1) * photos + prepared.source_ids[k]
            assert np.array_equal(prepared.images[k], pictures[corruption][position])
            assert prepared.labels[k] == labels[prepared.source_ids[k]]


def test_mini_imagenet_pools_the_three_caches_under_sorted_identifiers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    dataset = shrink(monkeypatch, "mini_imagenet", {"all": 200}, shape=(84, 84, 3))
    start, pictures, labels, parts = 0, [], [], list[tuple[str, str, str]]()
    for name, count in (("train", 64), ("validation", 16), ("test", 20)):
        numbers = range(start, start + count)[::-1]
        start += count
        pictures.append(images(2 * count, (84, 84, 3), count))
        labels.append(np.repeat(numbers, 2))
        members = {dataset.classes[n]: [2 * k, 2 * k + 1] for k, n in enumerate(numbers)}
        content = pickle.dumps({"image_data": pictures[-1], "class_dict": members})
        (tmp_path / f"mini-imagenet-cache-{name}.pkl").write_bytes(content)
        parts.append((f"mini-imagenet-cache-{name}.pkl", md5(content).hexdigest(), ""))
    monkeypatch.setattr(mini_imagenet, "PARTS", parts)
    expected = Arrays(np.concatenate(pictures), np.concatenate(labels))
    assert holds(imported("mini_imagenet", tmp_path, root), {"all": expected})
    assert tuple(sorted(mini_imagenet.CLASSES)) == mini_imagenet.CLASSES
    assert len(mini_imagenet.CLASSES) == 100


def test_office_home_is_resized_and_knows_its_domains(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    domains = dict.fromkeys(office_home.DOMAINS, 65)
    read = partial(office_home.read, domains=domains)
    shrink(monkeypatch, "office_home", {"all": 260}, read=read)
    folder = tmp_path / "OfficeHomeDataset_10072016"
    for seed, domain in enumerate(domains):
        arrays = Arrays(images(65, (12, 10, 3), seed), np.arange(65))
        picture_folder(folder / domain, arrays, office_home.CLASSES, ".jpg")
    prepared = imported("office_home", zipped(tmp_path / "office.zip", folder), root)
    assert prepared.images.shape == (260, 224, 224, 3)
    assert prepared.groups is not None
    assert np.bincount(prepared.groups).tolist() == [65] * 4
    assert np.bincount(prepared.labels).tolist() == [4] * 65
