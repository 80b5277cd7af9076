"""Batches that a device finds by itself: the order of a whole local training lies there, and so
does the place reached in it.

Every batch has the protocol's width; a short one is filled up and masked, so that all steps have
the same shapes and a recorded step can be played again on the next batch without asking the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch, Plan
from repfl.algorithms.core.data import ClientData


class Feed:
    """The batches of a chunk of clients, one step after the other."""

    def __init__(
        self,
        data: ClientData,
        plans: Sequence[Plan],
        width: int,
        device: torch.device,
        room: int = 1,
        sent: Mapping[str, Tensor] | None = None,
    ) -> None:
        """`room`: for how many steps at least; `sent`: the plans' tables, where they are on the
        device already.
        """
        self.data, self.width = data, width
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.columns = torch.arange(width, device=device)
        own = tables(plans, width) if sent is None else sent
        self.tables = {
            name: torch.empty(
                (max(room, len(table)), *table.shape[1:]), dtype=table.dtype, device=device
            ).copy_(table[:1])
            for name, table in own.items()
        }  # each [S, K, ...]
        self.ahead = torch.arange(len(self.tables["index"]), device=device)
        self.reload(plans, own)

    def reload(self, plans: Sequence[Plan], sent: Mapping[str, Tensor] | None = None) -> bool:
        """Take over other plans for as many clients in the same memory; tells whether they fit."""
        own = tables(plans, self.width) if sent is None else sent
        fits = own.keys() == self.tables.keys() and all(
            len(table) <= len(self.tables[name]) and table.shape[1:] == self.tables[name].shape[1:]
            for name, table in own.items()
        )
        if fits:
            for name, table in own.items():
                self.tables[name][: len(table)].copy_(table)
            self.lengths = [[len(part) for part in plan.index] for plan in plans]
            self.place.zero_()
        return fits

    def ragged(self, done: int) -> bool:
        """Whether any client has a short batch in the step after `done` others, or none at all."""
        return any(len(own) <= done or own[done] < self.width for own in self.lengths)

    def alike(self, done: int, most: int) -> int:
        """How many steps after `done` others are of one kind, ragged or not."""
        first = self.ragged(done)
        return next((n for n in range(1, most) if self.ragged(done + n) != first), most)

    def next(self, ragged: bool, steps: int = 1) -> list[Batch]:
        """The batches at the place reached, fetched together; the next call finds those after
        them.
        """
        rows = self.ahead[:steps] + self.place
        self.place += steps
        picked = {
            name: table.index_select(0, rows)
            for name, table in self.tables.items()
            if ragged or name != "length"
        }  # each [steps, K, ...]
        index, length = picked.pop("index"), picked.pop("length", None)
        draws = {name: draw.flatten(0, 2) for name, draw in picked.items()} or None
        x, y = self.data.inputs(index, draws), self.data.labels[index]
        real = None if length is None else self.columns < length[..., None]
        return [Batch(x[n], y[n], None if real is None else real[n]) for n in range(steps)]


def tables(plans: Sequence[Plan], width: int) -> dict[str, Tensor]:
    """Plans as blocks [S, K, B]: sample indices, lengths and augmentation draws; places past a
    client's end hold anything valid.
    """
    lengths = [np.array([len(part) for part in plan.index], dtype=np.int64) for plan in plans]
    steps = max(map(len, lengths))
    counts = np.zeros((steps, len(plans)), dtype=np.int64)
    for client, own in enumerate(lengths):
        counts[: len(own), client] = own
    index = _block([plan.index for plan in plans], lengths, steps, width)
    found = {"index": index, "length": torch.from_numpy(counts)}
    longest = max(plans, key=lambda plan: len(plan.index))
    for name in longest.draws[0] if steps else ():
        parts = [[draws[name] for draws in plan.draws] for plan in plans]
        found[name] = _block(parts, lengths, steps, width)
    return found


def _block(
    parts: Sequence[Sequence[Tensor]], lengths: Sequence[np.ndarray], steps: int, width: int
) -> Tensor:
    """Lists of short vectors as one block; each is filled up with its own first entry, and their
    list with its first vector  [S, K, B].
    """
    some = next(own[0] for own in parts if own).numpy()
    block = np.empty((steps, len(parts), width), dtype=some.dtype)
    for client, (own, held) in enumerate(zip(parts, lengths, strict=True)):
        values = np.concatenate([part.numpy() for part in own])
        starts = np.cumsum(held) - held
        rows = np.repeat(values[starts][:, None], width, axis=1)
        rows[np.arange(width) < held[:, None]] = values
        block[: len(rows), client], block[len(rows) :, client] = rows, rows[0]
    return torch.from_numpy(block)
