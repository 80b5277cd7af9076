"""Local training of a chunk of clients, stacked along the client axis.

Clients hold different numbers of samples. Inside a chunk they are sorted by their number of steps;
short batches are padded and masked, and a client that has finished leaves the chunk. A chunk of one
client needs neither, so a loop over single clients and a stack of many run the same code on the
same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from repfl.algorithms.core.batches import Batch, Plan
from repfl.algorithms.core.chunk import Chunk

Step = Callable[[Chunk, Batch], None]
"""One mini-batch of a chunk: reads and writes the chunk and nothing else, so that it may be
recorded once and played again.
"""

Advance = Callable[[Chunk, int, int], None]
"""Make the step after `done` others with the first `active` clients: (chunk, done, active)."""

Event = tuple[int, int]
"""(number of finished steps, number of clients that go on)."""


def run_chunk(
    local: Chunk, plans: Sequence[Plan], advance: Advance, *, by_epoch: bool = False
) -> Iterator[Event | None]:
    """Train a chunk whose plans are sorted from long to short, one step at a time.

    Yields an event when clients finish and, with `by_epoch`, when an epoch of any of them ends;
    otherwise none. The caller reads what it needs, and clients beyond those that go on then leave
    the chunk.
    """
    lengths = [len(plan.index) for plan in plans]
    done, active = 0, sum(n > 0 for n in lengths)
    yield done, active
    local.narrow(active)
    while active:
        last = done + 1 == lengths[active - 1]
        local.keeps_gradient = last
        advance(local, done, active)
        done += 1
        ends = by_epoch and any(
            done < n and plan.epoch[done] != plan.epoch[done - 1]
            for n, plan in zip(lengths[:active], plans, strict=False)
        )
        if not (last or ends):
            yield None
            continue
        remaining = sum(n > done for n in lengths[:active])
        yield done, remaining
        if 0 < remaining < active:
            local.narrow(remaining)
        active = remaining


# -- what comes out --------------------------------------------------------------------------------


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

    @staticmethod
    def of(values: Mapping[str, Tensor], rows: list[int]) -> dict[str, Tensor]:
        """The given rows of every tensor."""
        return {name: value[rows] for name, value in values.items()}

    def collect(self, local: Chunk, rows: list[int], steps: int, remaining: int) -> None:
        """Take over the clients that finish now and, if wanted, the models of those that end an
        epoch.
        """
        present = local.clients
        if self.epochs is not None and steps:
            self._collect_epochs(local.flat("w"), rows[:present], steps)
        gone = rows[remaining:present]
        if not gone:
            return
        for name, flat in self.models.items():
            flat[gone] = local.flat(name)[remaining:]
        for name, value in self.extras.items():
            value[gone] = local.extras[name][remaining:]
        if self.last_grad is not None and local.kept:
            self.last_grad[gone] = local.layout.spread(local.kept)[remaining:]

    def _collect_epochs(self, flat: Tensor, rows: list[int], steps: int) -> None:
        assert self.epochs is not None
        for k, row in enumerate(rows):
            epoch = self.plans[row].epoch
            if steps == len(epoch) or epoch[steps] != epoch[steps - 1]:
                self.epochs[epoch[steps - 1] - epoch[0] :, row] = flat[k]
