"""Pooling over windows of 2 x 2 by comparing neighbours: a matter of processors.

PyTorch's kernel is quick where all channels of a pixel lie together, and takes ten times as long
where they do not, as behind a convolution of grey pictures. Values and gradients have its bits, but
for the sign of a gradient that is zero, which no sum hears of.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

MANY = 1 << 16
"""Values from which on this was measured to be quicker where a gradient is wanted."""
WIDTH, HEIGHT = -1, -2


def pay(x: Tensor) -> bool:
    """Whether this is quicker: x [B, C, H, W]."""
    if x.device.type != "cpu" or min(x.shape[2:]) < 2:
        return False
    return not x.requires_grad or (x.numel() >= MANY and x.is_contiguous())


def largest(x: Tensor) -> Tensor:
    """x [B, C, H, W] -> [B, C, H // 2, W // 2]."""
    if x.requires_grad:
        out: Tensor = _Largest.apply(x)
        return out
    return torch.maximum(*_pairs(torch.maximum(*_pairs(x, HEIGHT)), WIDTH))


class _Largest(torch.autograd.Function):
    """Of equal values the first one gets the gradient, row by row, as PyTorch has it.

    Whole rows are compared first: they lie together. Where the larger values of two columns are
    equal, the right one therefore comes first if it alone is of the upper row. Who is first is kept
    as ones and zeros of the gradient's kind, which multiply it at once.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        top, bottom = _pairs(x, HEIGHT)
        upper = (top - bottom).sign_().add_(1).clamp_(max=1)
        left, right = _pairs(torch.maximum(top, bottom), WIDTH)
        ahead = torch.sub(*_pairs(upper, WIDTH))
        lefts = ahead.add_((left - right).sign_(), alpha=2).add_(1).clamp_(0, 1)
        ctx.save_for_backward(lefts, upper)
        ctx.high, ctx.wide = x.shape[2:]
        return torch.maximum(left, right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        lefts, upper = ctx.saved_tensors
        return _dealt(_dealt(grad, lefts, WIDTH, ctx.wide), upper, HEIGHT, ctx.high)


def _pairs(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """The first and the second of every two neighbours; an odd last one has none."""
    end = x.shape[dim] // 2 * 2
    if dim == WIDTH:
        return x[..., 0:end:2], x[..., 1:end:2]
    return x[..., 0:end:2, :], x[..., 1:end:2, :]


def _dealt(grad: Tensor, firsts: Tensor, dim: int, size: int) -> Tensor:
    """Every gradient at the first or second of its two places, along an axis of that size."""
    if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
        own = grad * firsts
        both = torch.stack((own, grad - own), dim).flatten(dim - 1, dim)
        rest = size - both.shape[dim]
        return F.pad(both, (0, rest) if dim == WIDTH else (0, 0, 0, rest))
    shape = [*grad.shape]
    shape[dim] = size
    out = grad.new_zeros(shape) if size % 2 else grad.new_empty(shape)
    deal(grad, firsts, *_pairs(out, dim))
    return out


def deal(grad: Tensor, firsts: Tensor, first: Tensor, second: Tensor) -> None:
    """Put every gradient where `firsts` is one into the first of its two places, else into the
    second.
    """
    torch.mul(grad, firsts, out=first)
    torch.sub(grad, first, out=second)
