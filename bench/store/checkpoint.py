"""Checkpoints: the state of a running cell as safetensors, so that a killed run goes on where it
was.
"""

from __future__ import annotations

import os
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
    """Return where the clients' models wait for the end of their run."""
    return store.running / f"{cell}.models.safetensors"


def save(store: Store, cell: str, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write a checkpoint over the last one. `facts` say what must be equal for it to be used."""
    own = _unshared(
        {name: value.detach().to("cpu").contiguous() for name, value in tensors.items()}
    )
    facts = {**facts, "format": FORMAT, "digest": of_tensors(own)}
    write(store, path_of(store, cell), own, facts)


def write(store: Store, path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write tensors into a file, whole or not at all."""
    with writing(store.root):
        _write(path.with_suffix(".partial"), tensors, facts)
        path.with_suffix(".partial").replace(path)


def _unshared(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, no two of them views of one memory, which a file cannot hold; the others
    are not copied: they may be gigabytes.
    """
    seen: set[int] = set()
    out = {}
    for name, value in tensors.items():
        memory = value.untyped_storage().data_ptr()
        out[name] = value.clone() if memory in seen else value
        seen.add(memory)
    return out


def _write(path: Path, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Stream tensors into a file and wait until the disk has it."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(tensors, path, facts)
    except SafetensorError as error:  # what it makes of a full disk
        raise OSError(str(error)) from error
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def load(store: Store, cell: str, facts: dict[str, str]) -> dict[str, Tensor] | None:
    """The last checkpoint of a cell; none if there is none, if it is damaged, or if it was made by
    other code or elsewhere.
    """
    from safetensors import safe_open

    try:
        with safe_open(path_of(store, cell), framework="pt") as file:
            known: dict[str, Any] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    # whatever is wrong with the file, the cell then starts again, which costs time and nothing else
    except Exception:
        return None
    expected = {**facts, "format": FORMAT, "digest": of_tensors(tensors)}
    return tensors if all(known.get(name) == value for name, value in expected.items()) else None


def round_of(store: Store, cell: str) -> int | None:
    """Return the round of a cell's checkpoint; None if there is none that can be read, or one that
    is older than a record of its failure.
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
    """Remove a cell's checkpoint, and the models that were to be kept."""
    for path in (path_of(store, cell), models_of(store, cell)):
        path.unlink(missing_ok=True)
        path.with_suffix(".partial").unlink(missing_ok=True)
