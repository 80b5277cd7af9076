"""Many small minimisations at once: a smooth function of a few numbers in [0, 1] for every
client.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Losses = Callable[[Tensor], Tensor]
"""Every problem's value at a point of its own  [K, m] -> [K]."""
HALVINGS = 12
SUFFICIENT = 1e-4


def minimise(
    losses: Losses, start: Tensor, *, iterations: int = 10, tolerance: float = 1e-3
) -> tuple[Tensor, Tensor]:
    """Minima of K independent functions over the unit box, by a projected quasi-Newton (BFGS)
    method  [K, m], [K].

    A problem is done when no entry of its gradient that may still move is larger than the
    tolerance. Problems share nothing but the evaluation of the function, so a client's result does
    not depend on who else is there.
    """
    x, inverse = (
        start.clone(),
        torch.eye(start.shape[1], dtype=start.dtype, device=start.device).repeat(len(start), 1, 1),
    )
    value, slope = with_gradient(losses, x)
    open_ = torch.isfinite(value)
    for iteration in range(iterations):
        free = ~(((x <= 0) & (slope > 0)) | ((x >= 1) & (slope < 0)))
        pull = slope * free
        open_ = open_ & (pull.abs().amax(1) > tolerance)
        if not bool(open_.any()):
            break
        direction = -((inverse * free[:, :, None] * free[:, None, :]) @ pull[:, :, None]).squeeze(2)
        if iteration == 0:  # no curvature yet: a step of at most length one
            direction = direction / pull.abs().sum(1, keepdim=True).clamp(min=1)
        moved, value, fresh, open_ = line_search(losses, x, value, slope, direction, open_)
        inverse = updated(inverse, moved - x, fresh - slope)
        x, slope = moved, fresh
    return x, value


def with_gradient(losses: Losses, x: Tensor) -> tuple[Tensor, Tensor]:
    """Values [K] and gradients [K, m]."""
    leaf = x.detach().requires_grad_()
    value = losses(leaf)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), slope


def line_search(
    losses: Losses, x: Tensor, value: Tensor, slope: Tensor, direction: Tensor, open_: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first of the steps 1, 1/2, 1/4 ... that lowers the value enough: new points, values and
    gradients, and who found such a step.
    """
    moved, least, fresh, waiting = x, value, slope, open_
    for halving in range(HALVINGS):
        trial = (x + direction * 0.5**halving).clamp(0, 1)
        tried, steepness = with_gradient(losses, trial)
        enough = waiting & (tried <= value + SUFFICIENT * ((trial - x) * slope).sum(1))
        moved, fresh = (
            torch.where(enough[:, None], trial, moved),
            torch.where(enough[:, None], steepness, fresh),
        )
        least, waiting = torch.where(enough, tried, least), waiting & ~enough
        if not bool(waiting.any()):
            break
    return moved, least, fresh, open_ & ~waiting


def updated(inverse: Tensor, step: Tensor, change: Tensor) -> Tensor:
    """The BFGS estimate of the inverse Hessian after a step, where curvature is
    positive  [K, m, m].
    """
    curvature = (step * change).sum(1)[:, None, None]
    sound = curvature > 1e-12
    scale = torch.where(sound, 1 / torch.where(sound, curvature, 1.0), 0.0)
    left = (
        torch.eye(step.shape[1], dtype=step.dtype, device=step.device)
        - scale * step[:, :, None] * change[:, None, :]
    )
    return left @ inverse @ left.transpose(1, 2) + scale * step[:, :, None] * step[:, None, :]
