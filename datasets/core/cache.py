"""The prepared cache: one safetensors file per dataset, mapped into memory when opened.

A file is written under a temporary name and renamed, so it is complete or absent.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from repfl.datasets.core.checks import Checked, check
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.registry import SAMPLE_DTYPES, SPLITS, Arrays, Dataset, get
from repfl.datasets.core.user_paths import expanded

FORMAT = 1
KEYS = ("images", "labels", "groups", "origins")
"""Names of the tensors in a file, in the order of the fields of `Arrays`."""
SIDES = ("groups", "source_ids")
"""What samples may have beside their labels."""
DTYPES = {"U8": np.uint8, "I64": np.int64, "F32": np.float32}
NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOLCK}
"""Errors of file systems without locks."""


@dataclass(frozen=True)
class Prepared:
    """A dataset ready for use: its splits one after another, each in canonical order."""

    description: Dataset
    images: np.ndarray  # [n, H, W, C] in the type and layout of its kind
    labels: np.ndarray  # int64 [n]
    splits: dict[str, range]
    fingerprints: dict[str, str]  # of every split, and of the sides that there are
    edition: str = "official"
    groups: np.ndarray | None = None  # int64 [n], index into description.groups
    source_ids: np.ndarray | None = None  # int64 [n]
    path: Path | None = None


def data_root(root: Path | str | None = None) -> Path:
    """Return the folder of all data: the argument, else REPFL_DATA, else ~/.cache/repfl."""
    return expanded(root or os.environ.get("REPFL_DATA") or "~/.cache/repfl")


def prepared_path(name: str, root: Path | str | None = None) -> Path:
    """Return the path of a dataset's prepared file."""
    return data_root(root) / "prepared" / f"{name}.safetensors"


def how_to_get(dataset: Dataset) -> str:
    """Return the command that makes a dataset available, as the end of an error message."""
    from_files = f"`repfl data import {dataset.name} --from PATH`"
    if not dataset.editions:
        return f"run `repfl data get {dataset.name}`, with the --plugin that describes it"
    if dataset.manual:
        return f"run {from_files}"
    return f"run `repfl data get {dataset.name}`, or {from_files}"


# -- writing ---------------------------------------------------------------------------------------


@contextmanager
def writable(root: Path) -> Iterator[None]:
    """Turn errors of writing into one line."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        raise DataError(
            f"cannot write under {root} ({getattr(error, 'strerror', None) or error}): point"
            " REPFL_DATA to a folder with space that you may write to"
        ) from error


@contextmanager
def locked(name: str, root: Path) -> Iterator[Path]:
    """Let one process at a time prepare a dataset; yield a folder for its temporary files.

    On a file system without locks, processes may do the same work twice: every file is renamed
    into place, so none can damage another's.
    """
    path, scratch = root / "locks" / f"{name}.lock", root / "scratch" / name
    with writable(root):
        for folder in (path.parent, scratch.parent):
            folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        try:
            lock.acquire()
            # left behind by a killed process
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            scratch = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=scratch.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        lock.release()


def write(dataset: Dataset, checked: Checked, root: Path, scratch: Path) -> Path:
    """Write the prepared file of a dataset whose lock the caller holds."""
    tensors = dict(zip(KEYS, _joined(checked.splits), strict=True))
    about = {
        "format": FORMAT,
        "name": dataset.name,
        "edition": checked.edition,
        "sizes": {split: len(arrays.labels) for split, arrays in checked.splits.items()},
        "fingerprints": checked.fingerprints,
        "source": _state_of(dataset.source),
    }
    path, partial = prepared_path(dataset.name, root), scratch / "partial.safetensors"
    with writable(root):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        mode = partial.stat().st_mode
        save_file(
            {key: tensor for key, tensor in tensors.items() if tensor is not None},
            partial,
            {"repfl": json.dumps(about, sort_keys=True)},
        )
        # safetensors makes files that only their owner can read
        partial.chmod(mode)
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    return path


def _state_of(source: Path | None) -> list[int]:
    """Return size and time of a file, or how many files a folder has and when one came or went;
    nothing if there is none. An image that is edited in place is not seen.
    """
    if source is None or not source.exists():
        return []
    if source.is_file():
        state = source.stat()
        return [state.st_size, state.st_mtime_ns]
    counts, times = list[int](), list[int]()
    for folder, _, files in os.walk(source):
        counts.append(len(files))
        times.append(Path(folder).stat().st_mtime_ns)
    return [sum(counts), max(times)]


def _joined(splits: Mapping[str, Arrays]) -> Arrays:
    """Concatenate all splits."""
    first, *others = splits.values()
    if not others:
        return first
    columns = zip(first, *others, strict=True)
    return Arrays(*(None if column[0] is None else np.concatenate(column) for column in columns))  # type: ignore[arg-type]


# -- reading ---------------------------------------------------------------------------------------


def open_dataset(name: str, root: Path | str | None = None) -> Prepared:
    """Map a prepared dataset into memory."""
    dataset = get(name)
    name = dataset.name
    if dataset.embedded:
        return _embedded(name)
    path = prepared_path(name, root)
    try:
        about, tensors = _map(path, name)
    except FileNotFoundError:
        raise DataError(
            f"{name} is not prepared under {data_root(root)}: {how_to_get(dataset)}"
        ) from None
    except PermissionError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    images, labels, groups, source_ids = (tensors.get(key) for key in KEYS)
    assert images is not None
    assert labels is not None
    if images.shape[1:] != dataset.shape or images.dtype != SAMPLE_DTYPES[dataset.kind]:
        raise DataError(
            f"{path} holds {images.dtype} {images.shape[1:]}, not the {dataset.kind} of"
            f" {dataset.sample_shape} that {dataset.name} has: {how_to_get(dataset)}"
        )
    was, now = about.get("source"), _state_of(dataset.source)
    if was and now and was != now:
        raise DataError(f"{dataset.source} has changed since it was read: {how_to_get(dataset)}")
    spans = _ranges(about["sizes"])
    marks = about["fingerprints"] | _of_sides(groups, source_ids)
    edition = about["edition"]
    return Prepared(dataset, images, labels, spans, marks, edition, groups, source_ids, path)


def sizes(dataset: Dataset) -> dict[str, int]:
    """Return split sizes as published, else as prepared here; empty if neither is known."""
    if dataset.splits:
        return dataset.splits
    try:
        spans = open_dataset(dataset.name).splits
    except DataError:
        return {}
    return {split: len(span) for split, span in spans.items()}


def _ranges(sizes: Mapping[str, int]) -> dict[str, range]:
    """Return the positions of each split among all samples."""
    ranges, start = {}, 0
    for split in SPLITS:
        if split in sizes:
            ranges[split] = range(start, start + sizes[split])
            start += sizes[split]
    return ranges


def _map(path: Path, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return metadata and memory-mapped tensors of a file.

    safetensors checks header and length; its own mapping would need torch, which takes seconds to
    import.
    """
    again = (
        f"run `repfl data get {name}` or `repfl data import {name} --from PATH` to prepare it again"
    )
    try:
        with safe_open(path, framework="np") as checked:
            about = json.loads(checked.metadata()["repfl"])
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length))
        del header["__metadata__"]
        # mode "c": processes share the pages, and a stray write stays in its process
        tensors: dict[str, np.ndarray] = {
            key: np.memmap(
                path,
                DTYPES[entry["dtype"]],
                mode="c",
                offset=8 + length + entry["data_offsets"][0],
                shape=tuple(entry["shape"]),
            )
            for key, entry in header.items()
        }
    except (SafetensorError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{path} is incomplete, damaged or not a prepared dataset: {again}"
        ) from None
    if about.get("format") != FORMAT or about.get("name") != name:
        raise DataError(
            f"{path} holds {about.get('name')!r} in format {about.get('format')}, not {name!r} in"
            f" format {FORMAT}: {again}"
        )
    return about, tensors


@cache
def _embedded(name: str) -> Prepared:
    """Read a dataset that comes with a library or as a function."""
    dataset = get(name)
    checked = check(dataset, dataset.read(Path()), name)
    images, labels, groups, source_ids = _joined(checked.splits)
    spans = _ranges({split: len(arrays.labels) for split, arrays in checked.splits.items()})
    marks = checked.fingerprints | _of_sides(groups, source_ids)
    return Prepared(dataset, images, labels, spans, marks, checked.edition, groups, source_ids)


def _of_sides(*sides: np.ndarray | None) -> dict[str, str]:
    """Return the fingerprints of groups and source ids, by which samples may be dealt."""
    pairs = zip(SIDES, sides, strict=True)
    return {n: sha256(np.ascontiguousarray(s).data).hexdigest() for n, s in pairs if s is not None}
