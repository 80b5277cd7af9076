"""The prepared cache: complete or absent, mapped and not copied, one writer at a time."""

from __future__ import annotations

import errno
import mmap
import multiprocessing
import os
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from repfl.datasets.core import cache
from repfl.datasets.core.cache import open_dataset, prepared_path
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files import prepare
from tests import PATIENCE
from tests.datasets.tiny import balanced, debris, npz, shrink, tiny_cifar


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An .npz file of CIFAR-10 with a few images per class."""
    return tiny_cifar(monkeypatch, tmp_path)[1]


def test_a_prepared_dataset_holds_the_splits_in_order_each_sorted_by_label(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dataset = shrink(monkeypatch, "organsmnist", {"train": 33, "val": 11, "test": 22})
    sizes = {"train": 3, "test": 2, "val": 1}
    splits = {split: balanced(dataset, n, seed=n) for split, n in sizes.items()}
    prepare.import_files("organsmnist", npz(tmp_path / "organ.npz", **splits), tmp_path)
    prepared = open_dataset("organsmnist", tmp_path)
    assert prepared.splits == {"train": range(33), "val": range(33, 44), "test": range(44, 66)}
    assert prepared.images.shape == (66, 28, 28, 1)
    assert prepared.images.dtype == np.uint8
    assert prepared.labels.dtype == np.int64
    for span in prepared.splits.values():
        assert (np.diff(prepared.labels[span.start : span.stop]) >= 0).all()
    assert all(verdict.intact for verdict in prepare.verify("organsmnist", tmp_path))


def test_opening_maps_the_file_and_copies_nothing(source: Path, root: Path) -> None:
    prepare.import_files("cifar10", source, root)
    prepared = open_dataset("cifar10", root)
    for array in (prepared.images, prepared.labels):
        assert isinstance(array, np.memmap)
        assert isinstance(array._mmap, mmap.mmap)  # type: ignore[attr-defined]
        assert array.flags["C_CONTIGUOUS"]


def test_a_stray_write_stays_in_its_process(source: Path, root: Path) -> None:
    prepare.import_files("cifar10", source, root)
    open_dataset("cifar10", root).images[:] = 0
    assert all(verdict.intact for verdict in prepare.verify("cifar10", root))


def test_digits_need_no_file_and_are_what_they_always_were(tmp_path: Path) -> None:
    prepared = open_dataset("digits", tmp_path)
    assert prepared.splits == {"train": range(1197), "test": range(1197, 1797)}
    assert np.bincount(prepared.labels[1197:]).tolist() == [60] * 10
    assert prepared.images.max() == 16
    assert prepared.fingerprints == prepared.description.fingerprints
    assert list(tmp_path.iterdir()) == []


# -- what can go wrong -----------------------------------------------------------------------------


def test_what_is_not_prepared_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="`repfl data get cifar10`, or `repfl data import cifar10"):
        open_dataset("cifar10", tmp_path)
    with pytest.raises(DataError, match="run `repfl data import office_home --from PATH`"):
        open_dataset("office_home", tmp_path)


@pytest.mark.parametrize("cut", [0, 5, 100, 3000, -1])
def test_a_half_written_cache_is_refused_and_the_next_import_replaces_it(
    source: Path, root: Path, cut: int
) -> None:
    path = prepare.import_files("cifar10", source, root)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    said = r"(incomplete|damaged).*run `repfl data get cifar10`"
    with pytest.raises(DataError, match=said) as caught:
        open_dataset("cifar10", root)
    assert "\n" not in str(caught.value)
    assert prepare.import_files("cifar10", source, root).read_bytes() == whole
    assert debris(root) == []


def test_a_file_of_another_dataset_is_refused(source: Path, root: Path) -> None:
    prepare.import_files("cifar10", source, root).rename(prepared_path("mnist", root))
    with pytest.raises(DataError, match=r"holds 'cifar10'.* not 'mnist'"):
        open_dataset("mnist", root)


def test_files_of_a_killed_process_are_removed(source: Path, root: Path) -> None:
    leftover = root / "scratch" / "cifar10" / "half"
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(b"half")
    prepare.import_files("cifar10", source, root)
    assert debris(root) == []


def test_a_full_disk_leaves_neither_debris_nor_a_broken_cache(source: Path, root: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(DataError, match=r"cannot write under .*File too large.*REPFL_DATA"):
            prepare.import_files("cifar10", source, root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert debris(root) == []
    assert not prepared_path("cifar10", root).exists()
    prepare.import_files("cifar10", source, root)
    assert prepare.is_prepared("cifar10", root)


def test_a_read_only_cache_can_be_read_but_not_written(
    source: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare.import_files("cifar10", source, root)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(cache.FileLock, "acquire", refuse)
    for name in ("mkdir", "unlink", "replace", "write_bytes"):
        monkeypatch.setattr(Path, name, refuse)
    assert len(open_dataset("cifar10", root).labels) == 50
    assert prepare.download("cifar10", root) == prepared_path("cifar10", root)
    with pytest.raises(DataError, match=r"cannot write under .*Read-only file system.*REPFL_DATA"):
        prepare.import_files("cifar10", source, root)


# -- several processes -----------------------------------------------------------------------------


def _import(source: Path, root: Path, start: Any, results: Any) -> None:
    """In a process of its own: prepare, and report the fingerprint."""
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch, "cifar10", {"train": 30, "test": 20})
        start.wait()
        prepare.import_files("cifar10", source, root)
        results.put(open_dataset("cifar10", root).fingerprints)


def test_processes_that_prepare_at_once_all_succeed_and_leave_one_file(
    source: Path, root: Path
) -> None:
    context = multiprocessing.get_context("fork")
    start, results = context.Event(), context.Queue()
    how: Any = {"target": _import, "args": (source, root, start, results)}
    workers = [context.Process(**how) for _ in range(4)]
    for worker in workers:
        worker.start()
    start.set()
    marks = [results.get(timeout=PATIENCE) for _ in workers]
    for worker in workers:
        worker.join(timeout=PATIENCE)
        assert worker.exitcode == 0
    assert all(mark == marks[0] for mark in marks)
    assert debris(root) == []
    assert all(verdict.intact for verdict in prepare.verify("cifar10", root))


def test_the_data_root_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REPFL_DATA", str(tmp_path))
    assert cache.data_root() == tmp_path
    monkeypatch.delenv("REPFL_DATA")
    assert cache.data_root() == Path("~/.cache/repfl").expanduser()
    assert cache.data_root(tmp_path / "given") == tmp_path / "given"
