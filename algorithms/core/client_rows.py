"""Rows of very many clients, of which only those that were written take memory."""

from __future__ import annotations

import shutil
import tempfile
from math import prod
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

LIMIT = 4 << 30
"""Bytes up to which all rows are an ordinary tensor."""


class RowsError(ValueError):
    """There is no room for the rows."""


class ClientRows:
    """A tensor [N, ...] in a file. Rows that no client has written yet share the initial values.

    It is read by `rows[clients]` and written by `Federation.scatter_rows`. The file is sparse and
    is gone when the process ends, however it ends; the operating system keeps in memory what fits.
    """

    def __init__(self, initial: Tensor, clients: int) -> None:
        """`initial` is the row of a client that has written none  [...]."""
        self.initial, self.device = initial, initial.device
        self.dtype, self.shape = initial.dtype, torch.Size([clients, *initial.shape])
        self._rows = _in_a_file(self.shape, initial.dtype)
        self._written = torch.zeros(clients, dtype=torch.bool)

    def __getitem__(self, clients: Tensor) -> Tensor:
        """Return the rows of some clients  [K] -> [K, ...]."""
        where = clients.cpu()
        own = self._written[where].view(-1, *[1] * self.initial.dim())
        return torch.where(own, self._rows[where], self.initial.cpu()).to(self.device)

    def index_copy_(self, dim: int, clients: Tensor, rows: Tensor) -> ClientRows:
        """Write the rows of some clients  [K], [K, ...]."""
        where = clients.cpu()
        self._rows.index_copy_(dim, where, rows.cpu())
        self._written[where] = True
        return self

    def mean(self, dim: int) -> Tensor:
        """Return the mean over all clients  [...]."""
        written = self._written.nonzero().flatten()
        total = (self.shape[dim] - len(written)) * self.initial.cpu()
        for client in written.tolist():
            total = total + self._rows[client]
        return (total / self.shape[dim]).to(self.device)

    def tensors(self) -> dict[str, Tensor]:
        """Return what a checkpoint needs."""
        written = self._written.nonzero().flatten()
        return {"clients": written, "rows": self._rows[written], "initial": self.initial}

    @classmethod
    def of(cls, tensors: dict[str, Tensor], clients: int, device: torch.device) -> ClientRows:
        """Return the rows that a checkpoint describes."""
        rows = cls(tensors["initial"].to(device), clients)
        return rows.index_copy_(0, tensors["clients"], tensors["rows"])


def allocate(initial: Tensor, clients: int) -> Tensor:
    """Return rows of initial values, one for each client or one for all  [N or 1, ...] -> [N, ...]:
    a tensor, or `ClientRows` if it would be very large.
    """
    size = clients * initial[0].numel() * initial.element_size()
    if len(initial) == 1 and size > LIMIT and not initial.is_meta:
        return cast(Tensor, ClientRows(initial[0].clone(), clients))
    return initial.expand(clients, *initial.shape[1:]).clone()


def _in_a_file(shape: torch.Size, dtype: torch.dtype) -> Tensor:
    """Return zeros in a file without a name, which takes room as rows are written."""
    size, folder = prod(shape) * dtype.itemsize, tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if free < size:  # a full disk would end the process without a word
        raise RowsError(
            f"the clients' rows may need {size / 1e9:.1f} GB, but {folder} has {free / 1e9:.1f} GB"
            " left; let TMPDIR name a folder with more"
        )
    with tempfile.NamedTemporaryFile(dir=folder, prefix="repfl-rows-", delete=False) as file:
        path = Path(file.name)
    try:
        flat = torch.from_file(str(path), shared=True, size=prod(shape), dtype=dtype)
    finally:
        path.unlink()
    return flat.view(shape)
