"""The prepared cache: one memory-mappable file per dataset.

The file is in the safetensors format (a JSON header, then plain arrays), so other tools read it
too. It is written under a temporary name, synced and renamed: it exists whole or not at all.
Opening maps it into memory; nothing is copied and nothing is written.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import Timeout

from repfl.datasets.core.canonical import Arrays, canonical_order, chunks, fingerprint
from repfl.datasets.core.checks import check
from repfl.datasets.core.errors import DataError
from repfl.datasets.core.locks import elsewhere, file_lock
from repfl.datasets.core.paths import expanded
from repfl.datasets.core.registry import SPLITS, Dataset, get

FORMAT = 1
_TYPES: dict[str, np.dtype[Any]] = {
    "U8": np.dtype(np.uint8),
    "I64": np.dtype("<i8"),
    "F32": np.dtype("<f4"),
}


@dataclass(frozen=True)
class Prepared:
    """A dataset ready for use: all splits one after another in the order train, val, test, each in
    canonical order.
    """

    description: Dataset
    images: np.ndarray  # uint8 [n, H, W, C], or float32 [n, 1, 1, F]
    labels: np.ndarray  # int64 [n]
    splits: dict[str, range]
    fingerprints: dict[str, str]
    edition: str = "official"
    groups: np.ndarray | None = None  # int64 [n]: index into description.groups
    origins: np.ndarray | None = None  # int64 [n]: which photograph
    path: Path | None = None


def data_root(root: Path | str | None = None) -> Path:
    """Where data live: the argument, else REPFL_DATA, else ~/.cache/repfl."""
    return expanded(root or os.environ.get("REPFL_DATA") or "~/.cache/repfl")


def prepared_path(name: str, root: Path | str | None = None) -> Path:
    """The prepared file of a dataset."""
    return data_root(root) / "prepared" / f"{name}.safetensors"


def unwritable(root: Path, error: OSError) -> DataError:
    """One line for the many faces of an unwritable or full data root."""
    return DataError(
        f"cannot write under {root} ({error.strerror or error}): point REPFL_DATA to a folder with"
        " space that you may write to"
    )


@contextmanager
def writable(root: Path) -> Iterator[None]:
    """Raise what goes wrong on writing as one line."""
    try:
        yield
    except OSError as error:
        raise unwritable(root, error) from error


@contextmanager
def locked(name: str, root: Path) -> Iterator[None]:
    """One writer per dataset at a time, also between processes."""
    folder = root / "locks"
    with writable(root):
        folder.mkdir(parents=True, exist_ok=True)
        lock = file_lock(folder / f"{name}.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            if told := elsewhere(folder / f"{name}.lock"):
                raise DataError(told) from None
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


# -- writing ---------------------------------------------------------------------------------------


def write(
    dataset: Dataset,
    splits: Mapping[str, Arrays],
    edition: str,
    root: Path,
    orders: Mapping[str, np.ndarray],
) -> Path:
    """Write the prepared file of a dataset; the caller holds its lock."""
    present = [split for split in SPLITS if split in splits]
    marks = {
        split: fingerprint(splits[split].images, splits[split].labels, orders[split])
        for split in present
    }
    sizes = {split: len(splits[split].labels) for split in present}
    meta = {
        "format": FORMAT,
        "name": dataset.name,
        "edition": edition,
        "sizes": sizes,
        "fingerprints": marks,
    }
    path = prepared_path(dataset.name, root)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with writable(root):
        path.parent.mkdir(parents=True, exist_ok=True)
        for leftover in path.parent.glob(
            f".{path.name}.*.partial"
        ):  # of a writer that was killed: the lock is ours
            leftover.unlink()
        try:
            with partial.open("wb") as file:
                file.write(_header(dataset, meta, splits[present[0]]))
                for block in _payload(
                    [splits[split] for split in present], [orders[split] for split in present]
                ):
                    np.ascontiguousarray(block).tofile(file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    return path


def _header(dataset: Dataset, meta: Mapping[str, Any], like: Arrays) -> bytes:
    """Length and JSON of a safetensors file; arrays of int64 come first, so that all are
    aligned.
    """
    n = sum(meta["sizes"].values())
    entries: dict[str, Any] = {"__metadata__": {"repfl": json.dumps(meta, sort_keys=True)}}
    position = 0
    for name, present in (
        ("labels", True),
        ("groups", like.groups is not None),
        ("origins", like.origins is not None),
    ):
        if present:
            entries[name] = {
                "dtype": "I64",
                "shape": [n],
                "data_offsets": [position, position + 8 * n],
            }
            position += 8 * n
    shape = [n, *dataset.shape]
    size = int(np.prod(shape, dtype=np.int64)) * like.images.itemsize
    entries["images"] = {
        "dtype": "F32" if dataset.features else "U8",
        "shape": shape,
        "data_offsets": [position, position + size],
    }
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _payload(splits: list[Arrays], orders: list[np.ndarray]) -> Iterator[np.ndarray]:
    """The arrays of all splits in the order of the header."""
    for name in ("labels", "groups", "origins"):
        for split, order in zip(splits, orders, strict=True):
            values = getattr(split, name)
            if values is not None:
                yield values[order].astype("<i8")
    for split, order in zip(splits, orders, strict=True):
        yield from chunks(split.images, order)


# -- reading ---------------------------------------------------------------------------------------


def open_dataset(name: str, root: Path | str | None = None) -> Prepared:
    """Map a prepared dataset into memory."""
    dataset = get(name)
    if dataset.embedded:
        return _embedded(name)
    path = prepared_path(name, root)
    try:
        meta, arrays = _map(path, name)
    except FileNotFoundError:
        raise DataError(
            f"{name} is not prepared under {data_root(root)}: {how_to_get(dataset)}"
        ) from None
    except PermissionError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from error
    held, floats = arrays["images"].shape[1:], arrays["images"].dtype == np.float32
    if held != dataset.shape or floats != dataset.features:
        raise DataError(
            f"{path} holds {'features' if floats else 'images'} of {held}, not"
            f" {'features' if dataset.features else 'images'} of {dataset.shape}:"
            f" {how_to_get(dataset)}"
        )
    return Prepared(
        dataset,
        arrays["images"],
        arrays["labels"],
        _ranges(meta["sizes"]),
        meta["fingerprints"],
        meta["edition"],
        arrays.get("groups"),
        arrays.get("origins"),
        path,
    )


def sizes(dataset: Dataset) -> dict[str, int]:
    """Split sizes as described, else as prepared here; nothing where neither is known."""
    try:
        spans = {} if dataset.splits else open_dataset(dataset.name).splits
    except DataError:
        return {}
    return dataset.splits or {split: len(span) for split, span in spans.items()}


def how_to_get(dataset: Dataset) -> str:
    """The command that makes a dataset available, as the end of an error message."""
    bring = f"`repfl data import {dataset.name} --from PATH`"
    if not dataset.editions:
        return f"run `repfl data get {dataset.name}`, with the --plugin that describes it"
    return f"run {bring}" if dataset.manual else f"run `repfl data get {dataset.name}`, or {bring}"


def _ranges(sizes: Mapping[str, int]) -> dict[str, range]:
    """Where each split lies among all samples."""
    ranges, start = {}, 0
    for split in SPLITS:
        if split in sizes:
            ranges[split] = range(start, start + sizes[split])
            start += sizes[split]
    return ranges


def _map(path: Path, name: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and memory-mapped arrays of a prepared file."""
    again = (
        f"run `repfl data get {name}` or `repfl data import {name} --from PATH` to prepare it again"
    )
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            (length,) = struct.unpack("<Q", file.read(8))
            entries = json.loads(file.read(length) if length < size else b"")
            meta = json.loads(entries.pop("__metadata__")["repfl"])
            end = 8 + length + max(entry["data_offsets"][1] for entry in entries.values())
        except (struct.error, ValueError, KeyError, TypeError, AttributeError):
            raise DataError(f"{path} is not a prepared dataset or is damaged: {again}") from None
    if size != end:
        raise DataError(f"{path} is incomplete ({size:,} of {end:,} bytes): {again}")
    if meta.get("format") != FORMAT or meta.get("name") != name:
        raise DataError(
            f"{path} holds {meta.get('name')!r} in format {meta.get('format')}, not {name!r} in"
            f" format {FORMAT}: {again}"
        )
    # mode "c": pages are shared with every other process; torch may wrap the array, and a stray
    # write would stay private to its process
    arrays: dict[str, np.ndarray] = {
        key: np.memmap(
            path,
            _TYPES[entry["dtype"]],
            mode="c",
            offset=8 + length + entry["data_offsets"][0],
            shape=tuple(entry["shape"]),
        )
        for key, entry in entries.items()
    }
    return meta, arrays


@cache
def _embedded(name: str) -> Prepared:
    """A dataset that an installed library, or a file of one's own, carries."""
    dataset = get(name)
    splits = dataset.read(Path())
    edition = check(dataset, splits, Path(name))
    present = [split for split in SPLITS if split in splits]
    orders = {split: canonical_order(splits[split]) for split in present}
    marks = {
        split: fingerprint(splits[split].images, splits[split].labels, orders[split])
        for split in present
    }
    for split, known in dataset.fingerprints.items():
        if known is not None and known != marks[split]:
            raise DataError(
                f"{name} {split}: the installed library holds other images than expected: reinstall"
                " scikit-learn"
            )
    parts = [[getattr(splits[split], part) for split in present] for part in Arrays._fields]
    images, labels, groups, origins = (_joined(part, present, orders) for part in parts)
    spans = _ranges({split: len(splits[split].labels) for split in present})
    assert images is not None
    assert labels is not None
    return Prepared(dataset, images, labels, spans, marks, edition.name, groups, origins)


def _joined(
    parts: list[np.ndarray | None], splits: list[str], orders: Mapping[str, np.ndarray]
) -> np.ndarray | None:
    """One array of all splits, each in its order; nothing where a split has none."""
    held = [part for part in parts if part is not None]
    if len(held) < len(parts):
        return None
    return np.concatenate([part[orders[split]] for part, split in zip(held, splits, strict=True)])
