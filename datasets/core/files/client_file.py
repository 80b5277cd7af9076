"""Partitions from a file and to one: a JSON list with the indices of every client,

    [{"train": [0, 7, 12], "test": [3]}, ...]

`val` is optional. Indices count over the splits of a data set one after another (train, val, test),
in canonical order; `positions` finds samples that another suite has counted in another order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from repfl.datasets.core.errors import DataError
from repfl.datasets.core.files.readers import reading
from repfl.datasets.core.partition import OPTIONS, Facts, Pool, partitioner
from repfl.datasets.core.splits import ClientSplits
from repfl.datasets.core.user_paths import real_path

if TYPE_CHECKING:
    from repfl.datasets.core.cache import Prepared

PARTS = ("train", "test", "val")


def rule_from_file(name: str, path: Path | str) -> None:
    """Register a partition rule that gives clients what a file says.

    A hash of the file is an option of the rule, and with it part of the ids of cells.
    """
    file = real_path(path)
    with reading(file):
        content = file.read_bytes()
        splits = _parse(json.loads(content), file)
    digest = sha256(content).hexdigest()[:16]

    @dataclass(frozen=True, config=OPTIONS)
    class Options:
        content: str = Field(default=digest, pattern=digest, description="hash of the file")

    def check(facts: Facts, clients: int, options: Any) -> None:
        with reading(file):
            today = sha256(file.read_bytes()).hexdigest()[:16]
        if today != digest:
            raise DataError(f"{file} has changed since it was read; restart Python")
        size = sum(facts.splits.values())
        last = max(int(index.max(initial=0)) for part in _parts(splits) for index in part)
        if clients != len(splits.train):
            raise DataError(f"{file} has {len(splits.train)} clients")
        if facts.splits and last >= size:
            raise DataError(f"{file} has index {last}, the data set {size} samples")

    @partitioner(name, Options, check=check)
    def from_file(pool: Pool, clients: int, seed: int, options: Options) -> ClientSplits:
        return splits


def write_clients(splits: ClientSplits, path: Path) -> None:
    """Write a partition as `rule_from_file` reads it."""
    clients = [
        {name: index.tolist() for name, index in zip(PARTS, parts, strict=True)}
        for parts in zip(*_parts(splits), strict=True)
    ]
    path.write_text(json.dumps(clients), encoding="utf-8")


def positions(data: Prepared, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the index of each of the given samples in a prepared data set  [n].

    Images are uint8 [n, H, W, C], or [n, H, W] of one channel. Of equal samples, the first that is
    asked for gets the first index.
    """
    known: dict[tuple[int, bytes], list[int]] = {}
    for index, key in reversed([*enumerate(_keys(data.images, data.labels))]):
        known.setdefault(key, []).append(index)
    found = []
    for place, key in enumerate(_keys(images, labels)):
        if key not in known:
            raise DataError(
                f"sample {place} of label {key[0]} is not in {data.description.name}: give its"
                " pixels as they were before normalisation"
            )
        equal = known[key]
        found.append(equal.pop() if len(equal) > 1 else equal[0])
    return np.array(found, np.int64)


def _keys(images: np.ndarray, labels: np.ndarray) -> list[tuple[int, bytes]]:
    return [
        (int(label), sha256(np.ascontiguousarray(image).tobytes()).digest())
        for image, label in zip(images, labels, strict=True)
    ]


def _parts(splits: ClientSplits) -> Sequence[list[np.ndarray]]:
    return splits.train, splits.test, splits.val


def _parse(clients: Any, file: Path) -> ClientSplits:
    """Return the splits of a file's content."""
    if not isinstance(clients, list) or not clients:
        raise DataError(f'{file}: is no list of clients, [{{"train": [0, 7], "test": [3]}}, ...]')
    for number, client in enumerate(clients):
        where = f"{file}: client {number}"
        keys = client.keys() if isinstance(client, dict) else set()
        if not {"train", "test"} <= keys <= {*PARTS}:
            has = ", ".join(map(str, keys)) or "none"
            raise DataError(f"{where} has the keys {has}; valid: train, test, and perhaps val")
        indices = [index for name in PARTS for index in client.get(name, [])]
        if any(type(index) is not int or index < 0 for index in indices):
            raise DataError(f"{where} has an index that is no integer from 0")
        if {*client["train"]} & {*client["test"], *client.get("val", [])}:
            raise DataError(f"{where} trains on a sample of its test or validation part")
    return ClientSplits.of(*([client.get(name, []) for client in clients] for name in PARTS))
