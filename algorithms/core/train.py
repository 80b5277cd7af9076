"""Local training of a chunk of clients, stacked along the client axis.

Clients hold different numbers of samples. Inside a chunk they are sorted by their number of steps;
short batches are padded and masked, and a client that has finished leaves the chunk. A chunk of one
client needs neither, so a loop over single clients and a stack of many run the same code on the
same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch, Plan
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.data import sent

Step = Callable[[Chunk, Batch], None]
"""One mini-batch of a chunk: reads and writes the chunk and nothing else, so that it may be
recorded once and played again.
"""

Advance = Callable[[Chunk, int, int, int], int]
"""Make the step after `done` others with the first `active` clients, and more where that is
quicker: (chunk, done, active, how many at most) -> how many were made.
"""


class Event(NamedTuple):
    """Clients finish, or end an epoch."""

    done: int
    """Steps so far."""
    present: int
    """Clients that have made all of them: the first so many."""
    remaining: int
    """Clients that go on."""


def run_chunk(
    local: Chunk,
    plans: Sequence[Plan],
    advance: Advance,
    keep: tuple[str, ...] = (),
    *,
    narrows: bool = True,
) -> Iterator[Event | None]:
    """Train a chunk whose plans are sorted from long to short, a step or a few at a time.

    Yields an event when clients finish and, where `keep` asks for epochs, when an epoch of any of
    them ends; otherwise none. The caller reads what it needs of those present. Clients that do not
    go on then leave the chunk; where it does not narrow they train on, and nobody reads them again.
    """
    lengths = [len(plan.index) for plan in plans]
    done, active = 0, sum(n > 0 for n in lengths)
    yield Event(done, len(plans), active)
    if narrows:
        local.narrow(active)
    while active:
        ends = [lengths[active - 1]]
        if "epochs" in keep:
            ends += [end for plan in plans[:active] if (end := _epoch_end(plan, done))]
        until = min(ends)
        gradient = "last_grad" in keep and until == lengths[active - 1]
        while done < until:
            local.keeps_gradient = gradient and done + 1 == until
            most = until - done - (gradient and not local.keeps_gradient)
            done += advance(local, done, active, most)
            if done < until:
                yield None
        remaining = sum(n > done for n in lengths[:active])
        yield Event(done, active, remaining)
        if narrows and 0 < remaining < active:
            local.narrow(remaining)
        active = remaining


def _epoch_end(plan: Plan, done: int) -> int | None:
    """After how many steps in all the epoch under way is over."""
    return next(
        (n for n in range(done + 1, len(plan.epoch)) if plan.epoch[n] != plan.epoch[n - 1]), None
    )


# -- what comes out --------------------------------------------------------------------------------


def taken(values: Mapping[str, Tensor], where: Tensor | slice) -> dict[str, Tensor]:
    """Copies of some rows of every tensor."""
    found = {name: value[where] for name, value in values.items()}
    return {n: v.clone() for n, v in found.items()} if isinstance(where, slice) else found


def placed(rows: Sequence[int], device: torch.device) -> Tensor | slice:
    """Rows of tensors on a device: a single one needs no list of places there."""
    return slice(rows[0], rows[0] + 1) if len(rows) == 1 else sent(torch.tensor(rows), device)


@dataclass(frozen=True)
class Trained:
    """What local training returns, in the order of the cohort."""

    models: dict[str, Tensor]  # each [K, D]
    extras: dict[str, Tensor]  # each [K, ...]
    last_grad: Tensor | None = None  # [K, D], gradient of the last mini-batch
    epochs: Tensor | None = None  # [E, K, D], the model after every epoch

    @property
    def theta(self) -> Tensor:
        """The trained model  [K, D]."""
        return self.models["w"]


class Rows:
    """Where the rows of finished clients come together, chunk after chunk."""

    def __init__(
        self,
        models: Mapping[str, Tensor],
        extras: Mapping[str, Tensor],
        plans: Sequence[Plan],
        keep: tuple[str, ...],
        in_place: bool = False,
    ) -> None:
        self.plans = plans
        self.models = {name: flat if in_place else flat.clone() for name, flat in models.items()}
        self.extras = {name: value.clone() for name, value in extras.items()}
        start = next(iter(self.models.values()))
        epochs = max(
            (plan.epoch[-1] - plan.epoch[0] + 1 for plan in plans if plan.epoch), default=0
        )
        self.last_grad = torch.zeros_like(start) if "last_grad" in keep else None
        self.epochs = start.repeat(epochs, 1, 1) if "epochs" in keep else None

    @property
    def trained(self) -> Trained:
        """Everything that was collected."""
        return Trained(self.models, self.extras, self.last_grad, self.epochs)

    def chunks(self, size: int) -> Iterator[list[int]]:
        """Rows in groups, those with many steps first."""
        order = sorted(range(len(self.plans)), key=lambda row: -len(self.plans[row].index))
        return (order[first : first + size] for first in range(0, len(order), size))

    def collect(self, local: Chunk, rows: list[int], where: Tensor | slice, event: Event) -> None:
        """Take over the clients that finish now and, if wanted, the models of those that end an
        epoch. `where` are the rows on the device.
        """
        done, present, remaining = event
        if self.epochs is not None and done:
            self._collect_epochs(local.flat("w"), rows[:present], done)
        if remaining == present:
            return
        gone = where if isinstance(where, slice) else where[remaining:present]
        for name, flat in self.models.items():
            flat[gone] = local.flat(name)[remaining:present]
        for name, value in self.extras.items():
            value[gone] = local.extras[name][remaining:present]
        if self.last_grad is not None and local.kept:
            self.last_grad[gone] = local.layout.spread(local.kept)[remaining:present]

    def _collect_epochs(self, flat: Tensor, rows: list[int], steps: int) -> None:
        assert self.epochs is not None
        for k, row in enumerate(rows):
            epoch = self.plans[row].epoch
            if steps == len(epoch) or epoch[steps] != epoch[steps - 1]:
                self.epochs[epoch[steps - 1] - epoch[0] :, row] = flat[k]
