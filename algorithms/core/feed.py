"""Batches that a device finds by itself: the order of a whole local training lies there, and so
does the place reached in it.

Every batch has the protocol's width; a short one is filled up and masked, so that all steps have
the same shapes and a recorded step can be played again on the next batch without asking the host.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from repfl.algorithms.core.batches import Batch, Plan
from repfl.algorithms.core.data import ClientData


class Feed:
    """The batches of a chunk of clients, one step after the other."""

    def __init__(
        self, data: ClientData, plans: Sequence[Plan], width: int, device: torch.device
    ) -> None:
        self.data, self.width, self.device = data, width, device
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.columns = torch.arange(width, device=device)
        self.tables = {
            name: _grown(table).to(device) for name, table in _tables(plans, width).items()
        }  # each [S, K, ...]
        self.lengths = _lengths(plans)

    def reload(self, plans: Sequence[Plan]) -> bool:
        """Take over other plans for as many clients in the same memory; tells whether they fit."""
        tables = _tables(plans, self.width)
        fits = tables.keys() == self.tables.keys() and all(
            len(table) <= len(self.tables[name]) and table.shape[1:] == self.tables[name].shape[1:]
            for name, table in tables.items()
        )
        if fits:
            for name, table in tables.items():
                self.tables[name][: len(table)].copy_(table)
            self.lengths = _lengths(plans)
            self.place.zero_()
        return fits

    def ragged(self, done: int, active: int) -> bool:
        """Whether any of the first clients has a short batch in the step after `done` others."""
        return any(lengths[done] < self.width for lengths in self.lengths[:active])

    def left(self, done: int, active: int) -> int:
        """How many steps the first clients still make together after `done` others."""
        return min(len(lengths) for lengths in self.lengths[:active]) - done

    def next(self, active: int, ragged: bool) -> Batch:
        """The batch of the first clients at the place reached; the next call finds the one after
        it.
        """
        row = {
            name: table.index_select(0, self.place)[0, :active]
            for name, table in self.tables.items()
        }  # each [K, ...]
        self.place += 1
        index, length = row.pop("index"), row.pop("length")
        draws = {name: draw.flatten(0, 1) for name, draw in row.items()} or None
        return Batch(
            self.data.inputs(index, draws),
            self.data.labels[index],
            self.columns < length[:, None] if ragged else None,
        )


def _lengths(plans: Sequence[Plan]) -> list[list[int]]:
    return [[len(part) for part in plan.index] for plan in plans]


def _tables(plans: Sequence[Plan], width: int) -> dict[str, Tensor]:
    """Plans as blocks [S, K, B]: sample indices, lengths and augmentation draws; places past a
    client's end hold anything valid.
    """
    steps = max(len(plan.index) for plan in plans)
    tables = {"index": _block([plan.index for plan in plans], steps, width)}
    tables["length"] = torch.tensor(
        [own + [0] * (steps - len(own)) for own in _lengths(plans)]
    ).T.contiguous()
    longest = max(plans, key=lambda plan: len(plan.index))
    for name in longest.draws[0] if steps else ():
        tables[name] = _block(
            [[draws[name] for draws in plan.draws] for plan in plans], steps, width
        )
    return tables


def _block(parts: Sequence[Sequence[Tensor]], steps: int, width: int) -> Tensor:
    """Lists of short vectors as one block, each filled up with its own first entry  [S, K, B]."""
    rows = []
    for own in parts:
        block = pad_sequence([*own, own[0].new_zeros(width)], batch_first=True)[:-1]  # [s, B]
        filled = torch.arange(width) < torch.tensor([len(part) for part in own])[:, None]
        block = torch.where(filled, block, block[:, :1])
        rows.append(torch.cat([block, block[:1].expand(steps - len(block), -1)]))
    return torch.stack(rows, dim=1)


def _grown(table: Tensor) -> Tensor:
    """The same table with room for more steps, so that it serves clients with more samples too."""
    room = 1 << (len(table) - 1).bit_length() if len(table) else 1
    return torch.cat([table, table[:1].expand(room - len(table), *table.shape[1:])])
