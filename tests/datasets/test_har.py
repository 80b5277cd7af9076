"""UCI HAR: a small archive in the official layout, the same windows as arrays, and its persons."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.datasets import har
from repfl.datasets.core import registry
from repfl.datasets.core.cache import Prepared, open_dataset
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from repfl.datasets.core.partition import Pool, partition
from repfl.datasets.core.recipe import Recipe
from tests.datasets import tiny
from tests.datasets.tiny import shrink, split

LENGTHS = (1, 2, 2, 3)
"""Windows of a person's recordings of each activity."""


@cache
def recorded() -> tuple[np.ndarray, ...]:
    """Windows [n, 128, 9] of recordings that overlap by half, labels, persons and recordings, with
    values of eight digits as in the official text.
    """
    rng = np.random.default_rng(0)
    windows, labels, owners, ids = [], [], [], []
    for person in range(har.PERSONS):
        for label in range(6):
            for length in LENGTHS:
                readings = rng.normal(size=(64 * (length + 1), 9))
                for start in range(length):
                    windows.append(readings[64 * start : 64 * start + 128])
                    labels.append(label)
                    owners.append(person)
                    ids.append(len(set(ids)) if start == 0 else ids[-1])
    text = np.char.mod("%.7e", np.stack(windows))
    return text.astype(np.float32), np.array(labels), np.array(owners), np.array(ids)


def official(folder: Path, windows: np.ndarray, labels: np.ndarray, persons: np.ndarray) -> Path:
    """The official folder: the first persons are for training, the others for testing."""
    root = folder / "UCI HAR Dataset"
    for part in ("train", "test"):
        chosen = (persons < 21) == (part == "train")
        signals = root / part / "Inertial Signals"
        signals.mkdir(parents=True)
        for channel, name in enumerate(har.SIGNALS):
            np.savetxt(signals / f"{name}_{part}.txt", windows[chosen, :, channel], fmt="%16.7e")
        np.savetxt(root / part / f"y_{part}.txt", labels[chosen] + 1, fmt="%d")
        np.savetxt(root / part / f"subject_{part}.txt", persons[chosen] + 1, fmt="%d")
    return root


def zipped(path: Path, folder: Path) -> Path:
    """UCI's archive: the authors' archive within another one."""
    inner = path.with_name(har.INNER)
    with zipfile.ZipFile(inner, "w") as file:
        for member in sorted(folder.rglob("*.txt")):
            file.write(member, member.relative_to(folder.parent))
    with zipfile.ZipFile(path, "w") as file:
        file.write(inner, inner.name)
    inner.unlink()
    return path


def imported(source: Path, root: Path) -> Prepared:
    prepare.import_files("har", source, root)
    return open_dataset("har", root)


def test_archive_folder_and_arrays_are_one_data_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    windows, labels, persons, ids = recorded()
    shrink(monkeypatch, "har", {"all": len(windows)})
    folder = official(tmp_path, windows, labels, persons)
    shuffled = np.random.default_rng(1).permutation(len(windows))
    arrays: dict[str, np.ndarray] = {
        "by_time": windows,
        "by_channel": windows.swapaxes(1, 2),
        # as some copies are: values by time, shape by channel
        "mislabelled": windows.reshape(-1, 9, 128),
    }
    sources = [folder, zipped(tmp_path / "har.zip", folder)]
    for name, signals in arrays.items():
        sources.append(tmp_path / f"{name}.npz")
        np.savez(
            sources[-1],
            signals=signals[shuffled],
            labels=labels[shuffled],
            persons=persons[shuffled],
        )
    found = [imported(source, tmp_path / f"root{k}") for k, source in enumerate(sources)]
    for other in found[1:]:
        assert other.fingerprints == found[0].fingerprints
        for side in ("images", "labels", "groups", "source_ids"):
            assert np.array_equal(getattr(other, side), getattr(found[0], side))
    assert found[0].images.shape == (len(windows), 1, 128, 9)
    # every window is with its label, person and recording
    where = {window.tobytes(): k for k, window in enumerate(found[0].images[:, 0])}
    place = np.array([where[window.tobytes()] for window in windows])
    assert np.array_equal(found[0].labels[place], labels)
    assert found[0].groups is not None
    assert found[0].source_ids is not None
    assert np.array_equal(found[0].groups[place], persons)
    pairs = set(zip(found[0].source_ids[place].tolist(), ids.tolist(), strict=True))
    assert len(pairs) == len(set(ids.tolist())) == len(np.unique(found[0].source_ids))


@pytest.mark.parametrize(
    ("signals", "labels", "persons", "problem"),
    [
        ((2, 9, 128), None, [0, 0], "there is no labels"),
        ((2, 9, 64), [0, 0], [0, 0], r"are float32 \[2, 9, 64\], not float32 \[n, 128, 9\]"),
        ((2, 9, 128), [0, 0], [1, 30], "persons reach from 2 to 31, not from 1 to 30"),
        ((2, 9, 128), [0, 0, 0], [0, 0], "2 windows, 3 labels, 2 persons"),
    ],
)
def test_arrays_of_another_form_are_one_line(
    tmp_path: Path, signals: tuple[int, ...], labels: Any, persons: list[int], problem: str
) -> None:
    content: dict[str, Any] = {"signals": np.zeros(signals, np.float32), "persons": persons}
    content |= {} if labels is None else {"labels": labels}
    np.savez(tmp_path / "har.npz", **content)
    with pytest.raises(DataError, match=problem):
        prepare.import_files("har", tmp_path / "har.npz", tmp_path / "root")


# -- persons ---------------------------------------------------------------------------------------


@cache
def persons_pool() -> Pool:
    windows, labels, persons, _ = recorded()
    arrays = har._arrays(windows, labels, persons)["all"]
    everything = {"all": range(len(labels))}
    names = registry.get("har").groups
    return Pool(arrays.labels, everything, 6, arrays.groups, names, arrays.source_ids)


def test_a_client_is_a_person_and_no_recording_is_divided() -> None:
    pool = persons_pool()
    splits = split(pool, "persons", 30, train_share=0.5, test_share=0.25)
    assert pool.groups is not None
    assert pool.source_ids is not None
    for client in range(30):
        parts = (splits.train[client], splits.test[client], splits.val[client])
        for part in parts:
            assert set(pool.groups[part]) == {client}
            assert set(pool.labels[part]) == set(range(6))
        recordings = [set(pool.source_ids[part]) for part in parts]
        # of four recordings of every activity, two are for training
        assert [len(each) for each in recordings] == [12, 6, 6]
        assert len(set.union(*recordings)) == 24
    assert sum(map(len, (*splits.train, *splits.test, *splits.val))) == len(pool.labels)


def test_other_seeds_draw_other_recordings_and_a_limit_keeps_the_others() -> None:
    pool, shares = persons_pool(), {"train_share": 0.5, "test_share": 0.25}
    one, two = (split(pool, "persons", 30, at, **shares) for at in (1, 2))
    assert one.digest != two.digest
    few = split(pool, "persons", 30, 1, train=12, **shares)
    assert {len(index) for index in few.train} == {12}
    for client in range(30):
        assert set(few.train[client]) < set(one.train[client])
        assert np.array_equal(few.test[client], one.test[client])
        counts = np.bincount(pool.labels[few.train[client]], minlength=6)
        assert counts.min() >= 1


def recipe(rule: str, clients: int, val_share: float) -> Recipe:
    options = {"test_share": 0.25}
    return replace(
        tiny.recipe(rule, clients, "har", val_share=val_share, **options), model="conv1d"
    )


def test_validation_samples_are_whole_recordings_too() -> None:
    pool = persons_pool()
    splits = partition(pool, recipe("domain", 30, 0.34), 1)
    assert pool.source_ids is not None
    for train, val in zip(splits.train, splits.val, strict=True):
        assert not set(pool.source_ids[train]) & set(pool.source_ids[val])
        assert set(pool.labels[val]) == set(range(6))


def test_a_random_split_of_overlapping_windows_is_refused() -> None:
    with pytest.raises(DataError, match="appear in more than one split"):
        partition(persons_pool(), recipe("iid", 5, 0.2), 1)


@pytest.mark.parametrize(
    ("clients", "options", "problem"),
    [
        (29, {}, "one client per person: set clients = 30"),
        (30, {"train_share": 0.8, "test_share": 0.3}, "more than 1"),
    ],
)
def test_requests_that_cannot_be_met(
    clients: int, options: dict[str, object], problem: str
) -> None:
    with pytest.raises(DataError, match=problem):
        split(persons_pool(), "persons", clients, **options)
