"""A chunk of clients in the middle of local training: parameters, objectives, gradients, PyTorch's
SGD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import entries
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.layout import Layout, Params, Single, Tensors
from repfl.algorithms.core.model import Model


@dataclass(frozen=True)
class Sgd:
    """PyTorch's SGD; momentum starts at zero in every round."""

    lr: float
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float = 0.0


Objective = Callable[["Chunk", Batch, Params], Tensor]
"""Loss of every client [K] from (the chunk, a batch, the parameters in question)."""


def cross_entropy(local: Chunk, batch: Batch, params: Params) -> Tensor:
    """Mean cross-entropy of every client  [K]."""
    return entropy_of(local.model.logits(params, batch.x, batch.mode), batch)


def still_cross_entropy(local: Chunk, batch: Batch, params: Params) -> Tensor:
    """The same in evaluation mode: BN statistics are used and left alone  [K]."""
    return entropy_of(local.model.logits(params, batch.x, batch.still), batch)


def entropy_of(logits: Tensor, batch: Batch) -> Tensor:
    """Mean cross-entropy of given logits [K, B, classes]  [K]."""
    if logits.shape[0] == 1 and batch.valid is None:
        return F.cross_entropy(logits.squeeze(0), batch.y.squeeze(0)).unsqueeze(0)
    return batch.mean(
        F.cross_entropy(logits.flatten(0, 1), batch.y.flatten(), reduction="none").view_as(batch.y)
    )


class Chunk:
    """A chunk of clients during local training: their parameters, optimiser and whatever else the
    method brought along.
    """

    def __init__(
        self,
        model: Model,
        layout: Layout,
        models: Mapping[str, Tensor],
        extras: Mapping[str, Tensor],
        sgd: Sgd,
        masks: Mapping[str, Tensor | None],
    ) -> None:
        self.model = model
        self.layout = layout
        self.models: dict[str, Tensors] = {
            name: layout.split(flat) for name, flat in models.items()
        }
        self.extras: dict[str, Tensor] = dict(extras)
        self.options = sgd
        self.masks: dict[str, Tensor | None] = dict(masks)
        self.pace: Tensor | None = None
        """The learning rate, where recorded steps must follow its schedule."""
        self.buffers: dict[str, list[Tensor]] = {}
        self.keeps_gradient = False
        self.kept: Params = {}
        self._laid: set[str] = set()

    @property
    def rate(self) -> float | Tensor:
        """The learning rate, for steps that use it themselves."""
        return self.options.lr if self.pace is None else self.pace

    def grad(self, batch: Batch, objective: Objective = cross_entropy, of: str = "w") -> Params:
        """Gradients of every client's loss with respect to the trainable tensors of one of its
        models.
        """
        params = self.models[of]
        if not self.masks:  # nothing trains, yet a forward pass moves BN statistics
            with torch.no_grad():
                objective(self, batch, params)
            return {}
        alone = self.clients == 1
        given = {n: t.squeeze(0) for n, t in params.items()} if alone else params
        leaves = {name: given[name].requires_grad_(True) for name in self.masks}
        losses = objective(self, batch, Single(given) if alone else params)
        total = losses.squeeze(0) if alone else losses.sum()
        grads = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        for leaf in leaves.values():
            leaf.requires_grad_(False)
        named = {
            n: torch.zeros_like(params[n]) if g is None else g.unsqueeze(0) if alone else g
            for n, g in zip(leaves, grads, strict=True)
        }
        if of not in self._laid:
            self._lay(of, named)
        if self.keeps_gradient:
            self.kept = {name: g.clone() for name, g in named.items()}
        return named

    def _lay(self, of: str, grads: Params) -> None:
        """Have kernels lie in memory entry by entry from the first step on, where their gradients
        do.
        """
        self._laid.add(of)
        params = self.models[of]
        for name, grad in grads.items():
            if entries.own(grad) and not entries.own(params[name]):
                params[name] = torch.empty_like(grad).copy_(params[name])

    def pull(self, grads: Params, anchor: str, strength: float, of: str = "w") -> Params:
        """Add the gradient of strength / 2 * |w - anchor|^2."""
        params, goal = self.models[of], self.models[anchor]
        away = {name: params[name] - goal[name] for name in grads}
        return {
            name: torch.add(g, away[name], alpha=strength, out=away[name])
            for name, g in grads.items()
        }

    def sgd(
        self, grads: Params, of: str = "w", options: Sgd | None = None, scale: Tensor | None = None
    ) -> None:
        """One SGD step on the trainable entries; a frozen entry feels neither momentum nor weight
        decay. `scale` [K] stretches steps.
        """
        if not grads:
            return
        options = options or self.options
        values = [self.models[of][name] for name in grads]
        masks = [self.masks[name] for name in grads]
        steps = list((self.clipped(grads, options.clip) if options.clip else grads).values())
        if scale is None and options is self.options and self._fuses(values, steps, masks):
            self._fused(of, values, steps)
            return
        if options.weight_decay:
            steps = list(torch._foreach_add(steps, values, alpha=options.weight_decay))
        steps = [g if mask is None else g * mask for g, mask in zip(steps, masks, strict=True)]
        if options.momentum:
            steps = self._with_momentum(of, steps, options.momentum)
        if scale is not None:
            steps = [_rescaled(step, scale) for step in steps]
        if self.pace is not None and options is self.options:
            torch._foreach_sub_(values, torch._foreach_mul(steps, self.pace))
        else:
            torch._foreach_add_(values, steps, alpha=-options.lr)

    def _fuses(self, values: list[Tensor], steps: list[Tensor], masks: list[Tensor | None]) -> bool:
        """Whether one kernel can make the step: on a GPU, in single precision, everything trains,
        and gradients lie in memory as parameters do.
        """
        return (
            self.pace is not None
            and self.pace.is_cuda
            and self.pace.dtype == torch.float32
            and all(mask is None for mask in masks)
            and all(v.stride() == s.stride() for v, s in zip(values, steps, strict=True))
        )

    def _fused(self, of: str, values: list[Tensor], steps: list[Tensor]) -> None:
        """Weight decay, momentum and the step in one kernel."""
        options, buffers = self.options, list[Tensor]()
        if options.momentum:
            if of not in self.buffers:
                self.buffers[of] = [torch.zeros_like(step) for step in steps]
            buffers = self.buffers[of]
        torch._fused_sgd_(
            values,
            steps,
            buffers,
            weight_decay=options.weight_decay,
            momentum=options.momentum,
            lr=cast(Tensor, self.pace),
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )

    def _with_momentum(self, of: str, steps: list[Tensor], momentum: float) -> list[Tensor]:
        if of not in self.buffers:
            self.buffers[of] = [step.clone() for step in steps]
        else:
            held = self.buffers[of]
            if held[0].device.type == "cpu":  # which converts a number anew for every tensor
                torch._foreach_mul_(held, held[0].new_tensor(momentum))
            else:
                torch._foreach_mul_(held, momentum)
            torch._foreach_add_(held, steps)
        return self.buffers[of]

    def clipped(self, grads: Params, limit: float, *, frozen_too: bool = False) -> Params:
        """Every client's gradient, scaled down to a norm of at most `limit`; frozen entries do not
        count unless `frozen_too`.
        """
        masks = {name: None if frozen_too else self.masks[name] for name in grads}
        counted = {
            name: g if (mask := masks[name]) is None else g * mask for name, g in grads.items()
        }
        norm = (
            torch.stack([g.flatten(1).square().sum(1) for g in counted.values()]).sum(0).sqrt()
        )  # [K]
        scale = (limit / (norm + 1e-6)).clamp(max=1.0)
        return {name: _rescaled(g, scale) for name, g in counted.items()}

    @property
    def clients(self) -> int:
        """How many clients are in the chunk."""
        return len(next(iter(next(iter(self.models.values())).values())))

    def flat(self, name: str) -> Tensor:
        """One of the models as flat vectors  [K, D]."""
        return self.layout.join(self.models[name])

    def takes(self, other: Chunk) -> bool:
        """Whether another chunk's numbers fit into this one's memory."""
        return replace(self.options, lr=other.options.lr) == other.options and _shapes(
            self
        ) == _shapes(other)

    def reload(self, other: Chunk) -> None:
        """Become another chunk before its first step, without moving in memory."""
        for name, named in other.models.items():
            torch._foreach_copy_(list(self.models[name].values()), list(named.values()))
        for name, value in other.extras.items():
            self.extras[name].copy_(value)
        for name, mask in other.masks.items():
            if mask is not None:
                cast(Tensor, self.masks[name]).copy_(mask)
        for buffer in self.buffers.values():
            torch._foreach_zero_(buffer)
        if self.pace is not None:
            self.pace.fill_(other.options.lr)
        self.keeps_gradient, self.kept = False, {}

    def narrow(self, active: int) -> None:
        """Keep the first `active` clients only."""
        if active == self.clients:
            return
        self.models = {
            m: {n: t[:active].clone() for n, t in named.items()} for m, named in self.models.items()
        }
        self.extras = {name: value[:active] for name, value in self.extras.items()}
        self.buffers = {
            name: [b[:active].clone() for b in buffer] for name, buffer in self.buffers.items()
        }
        self.masks = {
            name: mask if mask is None or len(mask) == 1 else mask[:active]
            for name, mask in self.masks.items()
        }
        self.kept = {name: g[:active] for name, g in self.kept.items()}


def _shapes(local: Chunk) -> list[object]:
    """What two chunks must have in common to use the same memory."""
    models = [{n: t.shape for n, t in named.items()} for named in local.models.values()]
    extras = {name: (value.shape, value.dtype) for name, value in local.extras.items()}
    masks = {name: None if mask is None else mask.shape for name, mask in local.masks.items()}
    return [list(local.models), models, extras, masks]


def _rescaled(x: Tensor, scale: Tensor) -> Tensor:
    """Every client's part [K, ...] times its own factor [K]."""
    return x * scale.view(-1, *[1] * (x.dim() - 1))


def trained_parts(layout: Layout, trainable: Tensor | None) -> dict[str, bool]:
    """The tensors that train, and which of them do as a whole."""
    learnable = [s for s in layout if s.kind != "stat"]
    if trainable is None:
        return {s.name: True for s in learnable}
    rows = trainable if trainable.dim() == 2 else trainable[None]
    parts = [rows[:, s.start : s.stop] for s in learnable]
    ends = torch.stack(
        [torch.stack((part.any(), part.all())) for part in parts]
    ).tolist()  # one question to the device
    return {s.name: whole for s, (some, whole) in zip(learnable, ends, strict=True) if some}


def tensor_masks(
    layout: Layout, trainable: Tensor | None, parts: Mapping[str, bool]
) -> dict[str, Tensor | None]:
    """The tensors that train, each with the mask of its trainable entries [1 or K, *shape] (none:
    all of them).
    """
    if trainable is None:
        return dict.fromkeys(parts)
    rows = trainable if trainable.dim() == 2 else trainable[None]
    masks: dict[str, Tensor | None] = {}
    for name, whole in parts.items():
        s = layout[name]
        own = None if whole else rows[:, s.start : s.stop].reshape(-1, *s.shape).clone()
        masks[name] = own  # own memory: see `reload`
    return masks
