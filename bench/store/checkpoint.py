"""Checkpoints: the state of a running cell as safetensors, so that a killed run can be resumed."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repfl.bench.store.digest import of_tensors
from repfl.bench.store.store import Store, writing

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "2"


def path_of(store: Store, cell: str) -> Path:
    return store.running / f"{cell}.safetensors"


def models_of(store: Store, cell: str) -> Path:
    """Return the file of the clients' models until their run ends."""
    return store.running / f"{cell}.models.safetensors"


def save(store: Store, cell: str, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write a checkpoint over the last one. It is loaded only if all `facts` are equal."""
    unshared = _unshared(
        {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    )
    facts = {**facts, "format": FORMAT, "digest": of_tensors(unshared)}
    write(store, path_of(store, cell), unshared, facts)


def write(store: Store, path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write tensors into a file, as a whole or not at all."""
    with writing(store.root):
        _write(path.with_suffix(".partial"), tensors, facts)
        path.with_suffix(".partial").replace(path)


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors without two views of the same memory, which a file cannot contain. The
    others are not copied, since they may be gigabytes.
    """
    seen: set[int] = set()
    out = {}
    for name, value in tensors.items():
        memory = value.untyped_storage().data_ptr()
        out[name] = value.clone() if memory in seen else value
        seen.add(memory)
    return out


def _write(path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write tensors to a file and wait until they are on the disk."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, path, facts)
    except SafetensorError as error:  # what it makes of a full disk
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def load(store: Store, cell: str, facts: dict[str, str]) -> dict[str, Tensor] | None:
    """Return the last checkpoint of a cell; None if there is none, if it is damaged, or if it was
    made by other code or elsewhere.
    """
    from safetensors import safe_open

    try:
        with safe_open(path_of(store, cell), framework="pt") as file:
            metadata: dict[str, Any] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    # whatever is wrong with the file, the cell then starts again, which costs time and nothing else
    except Exception:
        return None
    expected = {**facts, "format": FORMAT, "digest": of_tensors(tensors)}
    return tensors if all(metadata.get(name) == value for name, value in expected.items()) else None


def round_of(store: Store, cell: str) -> int | None:
    """Return the round of a cell's checkpoint; None if it cannot be read, or is older than a record
    of the cell's failure.
    """
    from safetensors import SafetensorError, safe_open

    failure = store.folder(cell) / "record.json"
    try:
        if failure.exists() and failure.stat().st_mtime > path_of(store, cell).stat().st_mtime:
            return None
        with safe_open(path_of(store, cell), framework="np") as file:
            return int(file.get_tensor("round"))
    except (OSError, SafetensorError):
        return None


def drop(store: Store, cell: str) -> None:
    """Remove a cell's checkpoint and the models beside it."""
    for path in (path_of(store, cell), models_of(store, cell)):
        path.unlink(missing_ok=True)
        path.with_suffix(".partial").unlink(missing_ok=True)
