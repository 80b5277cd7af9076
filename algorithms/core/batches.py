"""Which samples a client sees, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.data import ClientData, sent
from repfl.algorithms.core.ops import Mode
from repfl.algorithms.core.rng import Streams


@dataclass(frozen=True)
class Batch:
    """One mini-batch of every client in a chunk."""

    x: Tensor  # [K, B, C, H, W]
    y: Tensor  # [K, B]
    valid: Tensor | None  # [K, B] bool; none: every sample is real

    @property
    def mode(self) -> Mode:
        """Training mode, blind to padding."""
        return Mode(train=True, valid=self.valid)

    @property
    def still(self) -> Mode:
        """Evaluation mode: running statistics are used and left alone."""
        return Mode(train=False)

    def mean(self, per_sample: Tensor) -> Tensor:
        """Mean over real samples  [K, B] -> [K]."""
        if self.valid is None:
            return per_sample.mean(dim=1)
        return (per_sample * self.valid).sum(dim=1) / self.valid.sum(dim=1)


@dataclass(frozen=True)
class Schedule:
    """The address of the batches of one local training."""

    stream: str
    round: int
    epochs: int
    first_epoch: int
    batch: int
    skip_single: bool


@dataclass(frozen=True)
class Plan:
    """The batches of one client: index lists, the epoch of each, and the augmentation's draws."""

    index: list[Tensor]
    epoch: list[int]
    draws: list[dict[str, Tensor]]
    blocks: dict[int, dict[str, np.ndarray]] = field(default_factory=dict, compare=False)
    """The same as blocks [s, B], by the width B that was asked for."""

    def block(self, width: int) -> dict[str, np.ndarray]:
        """Indices and draws as blocks; short batches are filled up with their first entry."""
        if width not in self.blocks:
            lengths = np.array([len(part) for part in self.index], dtype=np.int64)
            found = {"index": _filled(self.index, lengths, width)}
            for name in self.draws[0]:
                found[name] = _filled([own[name] for own in self.draws], lengths, width)
            self.blocks[width] = found
        return self.blocks[width]

    def first(self, steps: int | None) -> Plan:
        """At most so many batches."""
        return (
            self
            if steps is None
            else Plan(self.index[:steps], self.epoch[:steps], self.draws[:steps])
        )


def plan_batches(data: ClientData, streams: Streams, client: int, schedule: Schedule) -> Plan:
    """Every epoch is one fresh random order, cut into batches; the last one may be short."""
    own = data.train[client]
    index, epochs, drawn = [], [], []
    for epoch in range(
        schedule.first_epoch, schedule.first_epoch + schedule.epochs if len(own) else 0
    ):
        address = (schedule.round, client, epoch)
        order = own[streams.permutation(len(own), schedule.stream, *address)]
        draws = (
            {}
            if data.augment is None
            else data.augment.draw(streams.at("augment", *address), len(own))
        )
        for start in range(0, len(own), schedule.batch):
            part = order[start : start + schedule.batch]
            if schedule.skip_single and len(part) == 1:
                continue
            index.append(part)
            epochs.append(epoch)
            drawn.append(
                {k: torch.from_numpy(v[start : start + schedule.batch]) for k, v in draws.items()}
            )
    return Plan(index, epochs, drawn)


def steps_per_epoch(held: Tensor, batch: int, skip_single: bool) -> Tensor:
    """How many mini-batches clients with so many samples have in an epoch, as `plan_batches` cuts
    them  [K].
    """
    if batch == 1 and skip_single:
        return torch.zeros_like(held)
    return held // batch + (held % batch > int(skip_single)).long()


def _filled(parts: Sequence[Tensor], lengths: np.ndarray, width: int) -> np.ndarray:
    """Short vectors as rows of a block, each filled up with its first entry  [s, B]."""
    values = np.concatenate([part.numpy() for part in parts])
    starts = np.cumsum(lengths) - lengths
    rows = np.repeat(values[starts][:, None], width, axis=1)
    rows[np.arange(width) < lengths[:, None]] = values
    return rows


def longest_plan(data: ClientData, schedule: Schedule) -> tuple[int, bool]:
    """The most batches that any client's plan may have, and whether any plan has short ones."""
    sizes, batch = [len(own) for own in data.train], schedule.batch
    return schedule.epochs * -(-max(sizes) // batch), any(n % batch for n in sizes)


def plan_pass(own: Tensor, batch: int) -> Plan:
    """All samples once, in their own order and unaugmented."""
    index = list(own.split(batch)) if len(own) else []
    return Plan(index, [0] * len(index), [{}] * len(index))


def padded(parts: Sequence[Tensor], width: int) -> Tensor:
    """Rows of unequal length as one block, filled with each row's first entry."""
    if len(parts) == 1:
        return parts[0].unsqueeze(0)
    return torch.stack(
        [
            torch.cat([p, p[:1].expand(width - len(p), *p.shape[1:])]) if len(p) < width else p
            for p in parts
        ]
    )


def batch_at(data: ClientData, plans: Sequence[Plan], step: int) -> Batch:
    """The given step's batch of every client."""
    parts, device = [plan.index[step] for plan in plans], data.labels.device
    width = max(map(len, parts))
    index, valid = sent(padded(parts, width), device), None
    if any(len(p) < width for p in parts):
        counts = torch.tensor([len(p) for p in parts])
        valid = sent(torch.arange(width) < counts[:, None], device)
    draws = None
    if plans[0].draws[step]:
        draws = {
            k: sent(padded([plan.draws[step][k] for plan in plans], width).flatten(0, 1), device)
            for k in plans[0].draws[step]
        }
    labels = data.labels.index_select(0, index.flatten()).view_as(index)
    return Batch(data.inputs(index, draws), labels, valid)
