"""From files to the prepared cache: fetch or import, read, check, write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from repfl.datasets.core.canonical import Arrays, canonical_order, fingerprint
from repfl.datasets.core.checks import check
from repfl.datasets.core.download import Progress, fetch
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.formats import (
    NothingFoundError,
    is_archive,
    read_npz,
    read_pictures,
    reading,
    unpacked,
)
from repfl.datasets.core.paths import expanded
from repfl.datasets.core.registry import Dataset, get
from repfl.datasets.core.store import (
    data_root,
    how_to_get,
    locked,
    open_dataset,
    prepared_path,
    writable,
    write,
)


def obtain(
    name: str,
    root: Path | str | None = None,
    progress: Progress | None = None,
    edition: str | None = None,
) -> Path | None:
    """Download and prepare a dataset unless it is there; the path of its prepared file (None for an
    embedded one).
    """
    dataset, base = get(name), data_root(root)
    files = dataset.edition(edition).files or dataset.files if edition else dataset.files
    own = not dataset.editions  # read again: its files are the user's, who may have changed them
    if dataset.embedded or (not own and usable(name, base, edition)):
        return None if dataset.embedded else prepared_path(name, base)
    if dataset.manual:
        raise DataError(f"{name} cannot be fetched automatically: {dataset.manual}")
    with locked(name, base):
        if not own and usable(name, base, edition):  # another process was faster
            return prepared_path(name, base)
        raw = base / "raw" / name
        with writable(base):
            raw.mkdir(parents=True, exist_ok=True)
        try:
            return _obtain(dataset, [fetch(file, raw, progress) for file in files()], raw, base)
        finally:
            with suppress(OSError):  # it holds archives, or what has arrived of them: then it stays
                raw.rmdir()


def _obtain(dataset: Dataset, paths: list[Path], raw: Path, root: Path) -> Path:
    """Prepare a dataset from its downloaded files."""
    archives = [path for path in paths if is_archive(path)]
    if not archives:
        source = raw if dataset.editions else Path(dataset.name)  # which names where it looks
        return _prepare(dataset, source, lambda: dataset.read(raw), root)
    with unpacked(archives, raw, dataset.room) as folder:
        return _prepare(dataset, raw, lambda: dataset.read(folder), root)


def bring(name: str, source: Path | str, root: Path | str | None = None) -> Path:
    """Prepare a dataset from files the user has: an official archive or folder, an .npz, or a
    folder of pictures.
    """
    dataset, base, path = get(name), data_root(root), expanded(source)
    if dataset.embedded:
        where = "scikit-learn" if dataset.editions else "its description"
        raise DataError(f"{name} comes with {where}: there is nothing to import")
    if not dataset.editions:
        raise DataError(f"{name} is read from where its description says: {how_to_get(dataset)}")
    if not path.exists():
        raise DataError(
            f"{path} does not exist: give the official archive or folder of {name}, an .npz file or"
            " a folder of pictures"
        )
    with locked(name, base):
        if path.is_dir():
            return _prepare(dataset, path, lambda: _read_folder(dataset, path), base)
        if path.suffix.lower() == ".npz":
            return _prepare(dataset, path, lambda: read_npz(path, dataset.room), base)
        if is_archive(path):
            with unpacked([path], base / "raw", dataset.room) as folder:
                return _prepare(dataset, path, lambda: _read_folder(dataset, folder), base)
        return _prepare(dataset, path, lambda: dataset.read(path.parent), base)


def _read_folder(dataset: Dataset, folder: Path) -> Mapping[str, Arrays]:
    """Official files where there are some, else an .npz of the dataset's name, else pictures in
    class folders.
    """
    try:
        return dataset.read(folder)
    except NothingFoundError as official:
        packed = folder / f"{dataset.name}.npz"
        if packed.is_file():
            return read_npz(packed, dataset.room)
        try:
            return read_pictures(
                folder, dataset.classes, dataset.shape, dataset.resize, "all" in dataset.splits
            )
        except NothingFoundError:
            raise DataError(
                f"{official}, and no pictures in class folders: {dataset.name} comes from"
                f" {dataset.homepage}"
            ) from None


def _prepare(
    dataset: Dataset, source: Path, read: Callable[[], Mapping[str, Arrays]], root: Path
) -> Path:
    """Read, check against everything that is published, and write; the caller holds the lock."""
    with reading(source):
        splits = read()
        edition = check(dataset, splits, source)
        orders = {split: canonical_order(arrays) for split, arrays in splits.items()}
    for split, known in (edition.fingerprints or {}).items():
        if fingerprint(splits[split].images, splits[split].labels, orders[split]) != known:
            raise DataError(
                f"{source}: {dataset.name} {split} has other images than published: get the"
                " original files"
            )
    return write(dataset, splits, edition.name, root, orders)


def usable(name: str, root: Path | str | None = None, edition: str | None = None) -> bool:
    """Whether a whole prepared file is there; a damaged one counts as absent, so that the next
    attempt replaces it.
    """
    try:
        prepared = open_dataset(name, root)
    except DataError:
        return False
    return edition in (None, prepared.edition)


class SplitCheck(NamedTuple):
    """What `verify` found for one split."""

    split: str
    fingerprint: str
    intact: bool  # equals what was recorded at preparation
    published: bool | None  # equals the published fingerprint; None where none is known


def verify(name: str, root: Path | str | None = None) -> list[SplitCheck]:
    """Recompute the fingerprints of a prepared dataset from its bytes."""
    prepared = open_dataset(name, root)
    edition = next(
        (edition for edition in prepared.description.editions if edition.name == prepared.edition),
        None,
    )
    known = (edition.fingerprints if edition else None) or {}
    verdicts = []
    for split, span in prepared.splits.items():
        mark = fingerprint(
            prepared.images[span.start : span.stop], prepared.labels[span.start : span.stop]
        )
        verdicts.append(
            SplitCheck(
                split,
                mark,
                mark == prepared.fingerprints[split],
                mark == known[split] if split in known else None,
            )
        )
    return verdicts


def damaged(name: str, verdicts: list[SplitCheck]) -> str:
    """One line about splits that are not as they should be, or nothing."""
    bad = [
        verdict.split for verdict in verdicts if not verdict.intact or verdict.published is False
    ]
    if not bad:
        return ""
    return (
        f"{name}: split {', '.join(bad)} does not match its fingerprint: delete the prepared file"
        f" and {how_to_get(get(name))}"
    )
