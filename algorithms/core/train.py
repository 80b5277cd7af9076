"""Local training of a chunk of clients, stacked along the client axis.

Clients hold different numbers of samples. Inside a chunk they are sorted by their number of steps; short batches are padded and masked, and
a client that has finished leaves the chunk. A chunk of one client needs neither, so a loop over single clients and a stack of many run the
same code on the same batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from algorithms.core.batches import Batch, Plan, batch_at
from algorithms.core.data import ClientData
from algorithms.core.layout import Layout, Params
from algorithms.core.model import Model


@dataclass(frozen=True)
class Sgd:
    """PyTorch's SGD; momentum starts at zero in every round."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0


Objective = Callable[["Local", Batch, Params], Tensor]
"""Loss of every client [K] from (the chunk, a batch, the parameters in question)."""


def cross_entropy(local: Local, batch: Batch, params: Params) -> Tensor:
    """Mean cross-entropy of every client  [K]."""
    return entropy_of(local.model.logits(params, batch.x, batch.mode), batch)


def still_cross_entropy(local: Local, batch: Batch, params: Params) -> Tensor:
    """The same in evaluation mode: BN statistics are used and left alone  [K]."""
    return entropy_of(local.model.logits(params, batch.x, batch.still), batch)


def entropy_of(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy of given logits [K, B, classes]  [K]."""
    if logits.shape[0] == 1 and batch.valid is None:
        return F.cross_entropy(logits.squeeze(0), batch.y.squeeze(0)).unsqueeze(0)
    return batch.mean(F.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), reduction="none").view_as(batch.y))


# -- a chunk in the middle of training ----------------------------------------------------------------------------------------------------


class Local:
    """A chunk of clients during local training: their parameters, optimiser and whatever else the method brought along."""

    def __init__(
        self, model: Model, layout: Layout, models: Mapping[str, Tensor], extras: Mapping[str, Tensor], sgd: Sgd, trainable: Tensor | None
    ) -> None:
        self.model = model
        self.layout = layout
        self.models: dict[str, Params] = {name: layout.split(flat) for name, flat in models.items()}
        self.extras: dict[str, Tensor] = dict(extras)
        self.options = sgd
        self.masks = _tensor_masks(layout, trainable)
        self.buffers: dict[str, list[Tensor]] = {}
        self.keeps_gradient = False
        self.kept: Params = {}

    def grad(self, batch: Batch, objective: Objective = cross_entropy, of: str = "w") -> Params:
        """Gradients of every client's loss with respect to the trainable tensors of one of its models."""
        params = self.models[of]
        if not self.masks:  # nothing trains, yet a forward pass moves BN statistics
            with torch.no_grad():
                objective(self, batch, params)
            return {}
        leaves = {name: params[name].requires_grad_(True) for name in self.masks}
        losses = objective(self, batch, params)
        grads = torch.autograd.grad(losses.sum(), list(leaves.values()), allow_unused=True)
        for leaf in leaves.values():
            leaf.requires_grad_(False)
        named = {n: torch.zeros_like(params[n]) if g is None else g for n, g in zip(leaves, grads, strict=True)}
        if self.keeps_gradient:
            self.kept = {name: g.clone() for name, g in named.items()}
        return named

    def pull(self, grads: Params, anchor: str, strength: float, of: str = "w") -> Params:
        """Add the gradient of strength / 2 * |w - anchor|^2."""
        params, goal = self.models[of], self.models[anchor]
        return {name: torch.add(g, params[name] - goal[name], alpha=strength) for name, g in grads.items()}

    def sgd(self, grads: Params, of: str = "w", options: Sgd | None = None, scale: Tensor | None = None) -> None:
        """One SGD step on the trainable entries; a frozen entry feels neither momentum nor weight decay. `scale` [K] stretches steps."""
        if not grads:
            return
        options = options or self.options
        values = [self.models[of][name] for name in grads]
        masks = [self.masks[name] for name in grads]
        steps = list((self.clipped(grads, options.clip) if options.clip else grads).values())
        if options.weight_decay:
            steps = list(torch._foreach_add(steps, values, alpha=options.weight_decay))
        steps = [g if mask is None else g * mask for g, mask in zip(steps, masks, strict=True)]
        if options.momentum:
            steps = self._with_momentum(of, steps, options.momentum)
        if scale is not None:
            steps = [_rescaled(step, scale) for step in steps]
        torch._foreach_add_(values, steps, alpha=-options.lr)

    def _with_momentum(self, of: str, steps: list[Tensor], momentum: float) -> list[Tensor]:
        if of not in self.buffers:
            self.buffers[of] = [step.clone() for step in steps]
        else:
            torch._foreach_mul_(self.buffers[of], momentum)
            torch._foreach_add_(self.buffers[of], steps)
        return self.buffers[of]

    def clipped(self, grads: Params, limit: float, *, frozen_too: bool = False) -> Params:
        """Every client's gradient, scaled down to a norm of at most `limit`; frozen entries do not count unless `frozen_too`."""
        masks = {name: None if frozen_too else self.masks[name] for name in grads}
        counted = {name: g if (mask := masks[name]) is None else g * mask for name, g in grads.items()}
        norm = torch.stack([g.flatten(1).square().sum(1) for g in counted.values()]).sum(0).sqrt()  # [K]
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        return {name: _rescaled(g, scale) for name, g in counted.items()}

    @property
    def clients(self) -> int:
        """How many clients are in the chunk."""
        return len(next(iter(next(iter(self.models.values())).values())))

    def flat(self, name: str) -> Tensor:
        """One of the models as flat vectors  [K, D]."""
        return self.layout.join(self.models[name])

    def narrow(self, active: int) -> None:
        """Keep the first `active` clients only."""
        if active == self.clients:
            return
        self.models = {m: {n: t[:active].clone() for n, t in named.items()} for m, named in self.models.items()}
        self.extras = {name: value[:active] for name, value in self.extras.items()}
        self.buffers = {name: [b[:active].clone() for b in buffer] for name, buffer in self.buffers.items()}
        self.masks = {name: mask if mask is None or len(mask) == 1 else mask[:active] for name, mask in self.masks.items()}
        self.kept = {name: g[:active] for name, g in self.kept.items()}


def _rescaled(x: Tensor, scale: Tensor) -> Tensor:
    """Every client's part [K, ...] times its own factor [K]."""
    return x * scale.view(-1, *[1] * (x.dim() - 1))


def _tensor_masks(layout: Layout, trainable: Tensor | None) -> dict[str, Tensor | None]:
    """The tensors that train, each with the mask of its trainable entries [1 or K, *shape] (none: all of them)."""
    if trainable is None:
        return {s.name: None for s in layout if s.kind != "stat"}
    rows = trainable if trainable.dim() == 2 else trainable[None]
    masks: dict[str, Tensor | None] = {}
    for s in layout:
        part = rows[:, s.start : s.stop]
        if s.kind != "stat" and bool(part.any()):
            masks[s.name] = None if bool(part.all()) else part.reshape(-1, *s.shape)
    return masks


Step = Callable[[Local, Batch], None]


def run_chunk(local: Local, data: ClientData, plans: list[Plan], step: Step, *, by_epoch: bool = False) -> Iterator[tuple[int, int]]:
    """Train a chunk whose plans are sorted from long to short.

    Yields (number of finished steps, number of clients that go on) whenever clients finish and, with `by_epoch`, whenever an epoch of any
    of them ends; the caller reads what it needs, and clients beyond that number then leave the chunk.
    """
    lengths = [len(plan.index) for plan in plans]
    done, active = 0, sum(n > 0 for n in lengths)
    yield done, active
    local.narrow(active)
    while active:
        last = done + 1 == lengths[active - 1]
        local.keeps_gradient = last
        step(local, batch_at(data, plans[:active], done))
        done += 1
        ends = by_epoch and any(
            done < n and plan.epoch[done] != plan.epoch[done - 1] for n, plan in zip(lengths[:active], plans, strict=False)
        )
        if last or ends:
            remaining = sum(n > done for n in lengths[:active])
            yield done, remaining
            if remaining < active:
                local.narrow(remaining)
            active = remaining


# -- what comes out -----------------------------------------------------------------------------------------------------------------------


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
        epochs = max((plan.epoch[-1] - plan.epoch[0] + 1 for plan in plans if plan.epoch), default=0)
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

    def collect(self, local: Local, rows: list[int], steps: int, remaining: int) -> None:
        """Take over the clients that finish now and, if wanted, the models of those that end an epoch."""
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
