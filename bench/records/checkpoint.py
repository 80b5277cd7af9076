"""Checkpoints: the state of a running cell as safetensors, so that a killed run goes on where it was."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.records.digest import of_tensors
from bench.records.store import Store, write_synced, writing

if TYPE_CHECKING:
    from torch import Tensor

FORMAT = "1"


def path_of(store: Store, cell: str) -> Path:
    return store.running / f"{cell}.safetensors"


def save(store: Store, cell: str, tensors: dict[str, Tensor], facts: dict[str, str]) -> None:
    """Write a checkpoint over the last one, atomically. `facts` say what must be equal for it to be used."""
    from safetensors.torch import save as encode

    own = {name: value.detach().to("cpu").clone() for name, value in tensors.items()}  # a file holds no two views of one memory
    data = encode({name: value.contiguous() for name, value in own.items()}, {**facts, "format": FORMAT, "digest": of_tensors(own)})
    path = path_of(store, cell)
    with writing(store.root):
        write_synced(path.with_suffix(".partial"), data)
        path.with_suffix(".partial").replace(path)


def load(store: Store, cell: str, facts: dict[str, str]) -> dict[str, Tensor] | None:
    """The last checkpoint of a cell; none if there is none, if it is damaged, or if it was made by other code or elsewhere."""
    from safetensors import safe_open

    try:
        with safe_open(path_of(store, cell), framework="pt") as file:
            known: dict[str, Any] = file.metadata() or {}
            names: list[str] = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except Exception:  # whatever is wrong with the file, the cell then starts again, which costs time and nothing else
        return None
    expected = {**facts, "format": FORMAT, "digest": of_tensors(tensors)}
    return tensors if all(known.get(name) == value for name, value in expected.items()) else None


def drop(store: Store, cell: str) -> None:
    """Remove a cell's checkpoint."""
    for path in (path_of(store, cell), path_of(store, cell).with_suffix(".partial")):
        path.unlink(missing_ok=True)
