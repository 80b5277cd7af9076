"""Many small minimisations at once: for every client, a function of a few numbers in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from repfl.algorithms.engine.client_data import to_host
from repfl.algorithms.math.gaussian import identity

Losses = Callable[[Tensor], Tensor]
"""The value of every function at a point of its own  [K, m] -> [K]."""
HALVINGS = 12
SUFFICIENT = 1e-4


def minimise(
    losses: Losses, start: Tensor, *, iterations: int = 10, tolerance: float = 1e-3
) -> tuple[Tensor, Tensor]:
    """Return the minima of K independent functions over the unit box, and their values, by a
    projected quasi-Newton (BFGS) method  [K, m] -> [K, m], [K].

    A function is done when no entry of its gradient that may still move is larger than the
    tolerance. Functions share nothing but their evaluation, so a client's result does not depend on
    who else is there.
    """
    x, value, slope = start.clone(), *with_gradient(losses, start)
    inverse = identity(start).repeat(len(start), 1, 1)
    active = torch.isfinite(value)
    for iteration in range(iterations):
        free = ~(((x <= 0) & (slope > 0)) | ((x >= 1) & (slope < 0)))
        pull = slope * free
        active = active & (pull.abs().amax(1) > tolerance)
        if not to_host(active).any():
            break
        direction = -((inverse * free[:, :, None] * free[:, None, :]) @ pull[:, :, None]).squeeze(2)
        if iteration == 0:  # no curvature yet: a step of at most length one
            direction = direction / pull.abs().sum(1, keepdim=True).clamp(min=1)
        moved, value, fresh, active = line_search(losses, x, value, slope, direction, active)
        inverse = updated(inverse, moved - x, fresh - slope)
        x, slope = moved, fresh
    return x, value


def with_gradient(losses: Losses, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return values [K] and gradients [K, m]."""
    leaf = x.detach().requires_grad_()
    value = losses(leaf)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), slope


def line_search(
    losses: Losses, x: Tensor, value: Tensor, slope: Tensor, direction: Tensor, active: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Take the first of the steps 1, 1/2, 1/4 ... that lowers the value enough; return the new
    points, values and gradients, and for which functions there was such a step.
    """
    moved, least, fresh, waiting = x, value, slope, active
    for halving in range(HALVINGS):
        trial = (x + direction * 0.5**halving).clamp(0, 1)
        tried, steepness = with_gradient(losses, trial)
        enough = waiting & (tried <= value + SUFFICIENT * ((trial - x) * slope).sum(1))
        moved = torch.where(enough[:, None], trial, moved)
        fresh = torch.where(enough[:, None], steepness, fresh)
        least, waiting = torch.where(enough, tried, least), waiting & ~enough
        if not to_host(waiting).any():
            break
    return moved, least, fresh, active & ~waiting


def updated(inverse: Tensor, step: Tensor, change: Tensor) -> Tensor:
    """Return the BFGS estimate of the inverse Hessian after a step; unchanged where curvature is
    not positive  [K, m, m].
    """
    curvature = (step * change).sum(1)[:, None, None]
    sound = curvature > 1e-12
    scale = torch.where(sound, 1 / torch.where(sound, curvature, 1.0), 0.0)
    left = identity(step) - scale * step[:, :, None] * change[:, None, :]
    return left @ inverse @ left.mT + scale * step[:, :, None] * step[:, None, :]
