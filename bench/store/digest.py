"""Digests of results: equal when the same cell is computed again. Wall-clock values are left
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

TIMES = "time/"
"""Prefix of curves that are measured seconds."""


def of_tensors(tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 of named tensors, sorted by name: name, type, shape and bytes."""
    return of_arrays({name: _as_array(value) for name, value in tensors.items()})


def _as_array(tensor: Tensor) -> np.ndarray:
    tensor = tensor.detach().to("cpu").contiguous()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    array: np.ndarray = tensor.numpy()
    return array


def of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the SHA-256 of named arrays, sorted by name."""
    digest = sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        digest.update(array.data if array.dtype.kind != "U" else array.tobytes())
    return digest.hexdigest()


def of_curves(
    rows: Iterable[tuple[int, str, float]], client_rows: Iterable[tuple[Any, ...]]
) -> str:
    """Return the SHA-256 of curves and counts, sorted by round and name, without measured times."""
    digest = sha256()
    for round_, name, value in sorted((r, n, v) for r, n, v in rows if not n.startswith(TIMES)):
        digest.update(f"{round_}\0{name}\0".encode() + np.float64(value).tobytes())
    for row in sorted(client_rows):
        digest.update("\0".join(map(str, row)).encode())
    return digest.hexdigest()


def of_file(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
