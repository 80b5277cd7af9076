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
    blocks = [plan.block(width) if plan.index else {} for plan in plans]
    longest = max(blocks, key=lambda block: len(block.get("index", ())))
    steps = len(longest["index"])
    counts = np.zeros((steps, len(plans)), dtype=np.int64)
    found = {
        name: np.empty((steps, len(plans), width), dtype=held.dtype)
        for name, held in longest.items()
    }
    for client, (plan, own) in enumerate(zip(plans, blocks, strict=True)):
        counts[: len(plan.index), client] = [len(part) for part in plan.index]
        for name, held in found.items():
            rows = own.get(name, longest[name][:1])
            held[: len(rows), client], held[len(rows) :, client] = rows, rows[0]
    return {name: torch.from_numpy(held) for name, held in (found | {"length": counts}).items()}
