"""Mini-batch schedules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from repfl.algorithms.engine.client_data import ClientData, to_device
from repfl.algorithms.engine.params import Tensors
from repfl.algorithms.engine.rng import Streams

Number = TypeVar("Number", int, Tensor)


class Batch(NamedTuple):
    """One client's mini-batch. Within `torch.vmap` its tensors have a hidden axis of clients."""

    x: Tensor  # [B, C, H, W]
    y: Tensor  # [B]


@dataclass(frozen=True)
class Schedule:
    """The address of the batches of one local training."""

    stream: str
    round: int
    epochs: float
    first_epoch: int
    batch: int
    skip_single: bool
    steps: int | None = None
    """How many batches there are, instead of `epochs`."""

    def of_epoch(self, samples: int) -> int:
        """Return the number of batches in an epoch of a client with a number of samples."""
        return steps_per_epoch(samples, self.batch, self.skip_single)

    def length(self, samples: int) -> int:
        """Return the number of its batches in all."""
        of_epoch = self.of_epoch(samples)
        if self.steps is not None:
            return self.steps if of_epoch else 0
        # 0.1 * 30 is a little more than 3
        return ceil(round(self.epochs * of_epoch, 9))


@dataclass(frozen=True)
class Plan:
    """The batches of one client: index lists, the epoch of each, the draws of augmentation."""

    index: list[Tensor]
    epoch: list[int]
    draws: list[dict[str, Tensor]]
    address: tuple[int, ...] = ()
    """Round, client and first epoch, which key the draws of random layers."""

    def ends_epoch(self, step: int) -> bool:
        """Return whether an epoch ends with a step."""
        return step + 1 == len(self.epoch) or self.epoch[step + 1] != self.epoch[step]

    def on(self, device: torch.device) -> Plan:
        """Return the plan with what batches are made of on a device, copied in one go."""
        if device == torch.device("cpu") or not self.index:
            return self
        sizes = [len(part) for part in self.index]

        def sent(parts: list[Tensor]) -> list[Tensor]:
            return list(to_device(torch.cat(parts), device).split(sizes))

        names = self.draws[0]
        draws = {name: sent([own[name] for own in self.draws]) for name in names}
        drawn = [{name: draws[name][step] for name in names} for step in range(len(sizes))]
        return replace(self, index=sent(self.index), draws=drawn)

    def first(self, steps: int | None) -> Plan:
        """Return the first `steps` batches, or all."""
        return (
            self
            if steps is None
            else replace(
                self, index=self.index[:steps], epoch=self.epoch[:steps], draws=self.draws[:steps]
            )
        )


def plan_batches(data: ClientData, streams: Streams, client: int, schedule: Schedule) -> Plan:
    """Plan epochs: each is one random order, cut into batches; the last one may be short."""
    samples = data.train[client]
    length = schedule.length(len(samples))
    index: list[Tensor] = []
    epochs, drawn = [], []
    begun = ceil(length / (schedule.of_epoch(len(samples)) or 1))
    for epoch in range(schedule.first_epoch, schedule.first_epoch + begun):
        address = (schedule.round, client, epoch)
        order = samples[streams.permutation(len(samples), schedule.stream, *address)]
        draws = (
            {}
            if data.augment is None
            else data.augment.draw(streams.at("augment", *address), len(samples))
        )
        for start in range(0, len(samples), schedule.batch):
            part = order[start : start + schedule.batch]
            if schedule.skip_single and len(part) == 1:
                continue
            index.append(part)
            epochs.append(epoch)
            drawn.append(
                {k: torch.from_numpy(v[start : start + schedule.batch]) for k, v in draws.items()}
            )
    plan = Plan(index, epochs, drawn, (schedule.round, client, schedule.first_epoch))
    return plan.first(length)


def steps_per_epoch(samples: Number, batch: int, skip_single: bool) -> Number:
    """Count the mini-batches of an epoch of one or several clients, by their number of samples."""
    if batch == 1 and skip_single:
        return samples * 0
    return samples // batch + 1 * (samples % batch > int(skip_single))


def plan_pass(samples: Tensor, batch: int) -> Plan:
    """Plan one pass over samples in the given order, unaugmented."""
    index = list(samples.split(batch)) if len(samples) else []
    return Plan(index, [0] * len(index), [{}] * len(index))


@dataclass(frozen=True)
class Feed:
    """What a batch is made of, on the device: which samples, and how they are augmented."""

    index: Tensor  # [k * B]
    draws: Tensors  # [k * B, ...] each


def feed_of(plans: Sequence[Plan], step: int) -> Feed:
    """Return a step's samples of clients whose batches are of equal size."""
    draws = [plan.draws[step] for plan in plans]
    index = torch.cat([plan.index[step] for plan in plans])
    return Feed(index, {name: torch.cat([own[name] for own in draws]) for name in draws[0]})


def batch_of(data: ClientData, feed: Feed, clients: int) -> Batch:
    """Return the batch of a client  [B, ...], or those of several  [k, B, ...]."""
    x, y = data.inputs(feed.index, feed.draws or None), data.labels.index_select(0, feed.index)
    if clients == 1:
        return Batch(x, y)
    shape = (clients, len(y) // clients)
    return Batch(x.unflatten(0, shape), y.view(shape))
