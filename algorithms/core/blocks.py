"""A convolution of a model's input with batch norm, pooling over windows of 2 x 2 and ReLU behind
it, as one: a matter of processors.

From one map or three, a convolution makes too few products per pixel to keep vectors busy, and what
follows it runs over short rows. Here the four pixels of a pooling window are maps of their own,
made by kernels that are one pixel larger and move by two. So all of it is one matrix product of
patches, and everything behind runs over rows as long as the batch. The sums are those of PyTorch's
layers, added up in another order.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import dense, pooling

FEW = 3
"""So many maps may go in."""
MANY = 3 << 14
"""Values that come out of the convolution, from which on this was measured to be quicker."""


def pay(x: Tensor, weight: Tensor) -> bool:
    """Whether one block is quicker than its layers: x [B, C, H, W], weight [O, C, h, w]."""
    trains = torch.is_grad_enabled() and not x.requires_grad
    return trains and dense.plain(x) and _worth(x.shape, weight.shape)


@lru_cache(maxsize=256)
def _worth(shape: tuple[int, ...], kernel: tuple[int, ...]) -> bool:
    """Whether windows divide such images, and there is enough to do."""
    even = all(
        have % 2 == 0 and width % 2 for have, width in zip(shape[2:], kernel[2:], strict=True)
    )
    pixels = prod(_pooled(shape, kernel))
    return even and shape[1] <= FEW and 4 * shape[0] * kernel[0] * pixels >= MANY


def forward(
    x: Tensor, weight: Tensor, bias: Tensor, norm: tuple[Tensor, ...], momentum: float, eps: float
) -> Tensor:
    """x [B, C, H, W] -> [B, O, H', W']; `norm` are scale and shift, running mean and variance,
    which move.
    """
    out: Tensor = _Block.apply(x, weight, bias, *norm, momentum, eps)
    return out


class _Block(torch.autograd.Function):
    """Without a `setup_context`, for which PyTorch reads the signature anew at every call.

    Of equal values in a window the first one gets the gradient, row by row, as PyTorch has it. Who
    is larger is kept as ones and zeros of the gradient's kind, which multiply it at once.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        scale: Tensor,
        shift: Tensor,
        mean: Tensor,
        var: Tensor,
        momentum: float,
        eps: float,
    ) -> Tensor:
        maps, count = len(weight), 4 * len(x) * prod(pixels := _pooled(x.shape, weight.shape))
        patches = _patches(x, weight.shape)  # [C*(h+1)*(w+1), B*H'*W']
        centred = dense.product(_widened(weight), patches.t()).view(4, maps, -1)
        middle = centred.sum((0, 2)) / count
        centred -= middle[:, None]
        squares = centred.square().sum((0, 2))
        mean.lerp_(middle + bias, momentum)
        var.lerp_(squares / (count - 1), momentum)
        inverse = torch.rsqrt(squares / count + eps)
        scaled = (centred * (inverse * scale)[:, None]).view(2, 2, maps, -1)
        rows, lefts = _larger(scaled[:, 0], scaled[:, 1])
        pooled, upper = _larger(*rows)
        out = pooled.add_(shift[:, None]).relu_()
        ctx.save_for_backward(
            x, weight, bias, scale, shift, patches, centred, inverse, lefts, upper, out
        )
        ctx.eps, ctx.count = eps, count
        return out.view(maps, len(x), *pixels).transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, *given, patches, centred, inverse, lefts, upper, out = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
            wanted = ctx.needs_input_grad[1:5]
            return None, *_differentiable(grad, x, given, wanted, ctx.eps), *[None] * 4
        weight, _, scale, _ = given
        maps, count = len(weight), ctx.count
        rising = grad.transpose(0, 1).reshape(maps, -1)
        rising = torch.ops.aten.threshold_backward(rising, out, 0)
        of_shift = rising.sum(1)
        spread = _dealt(_dealt(rising, upper, 0), lefts, 1).view_as(centred)
        of_scale = (spread * centred).sum((0, 2)) * inverse
        spread.addcmul_(centred, (of_scale * inverse / -count)[:, None])
        spread -= (of_shift / count)[:, None]
        factor = inverse * scale
        of_bias = spread.sum((0, 2)) * factor
        of_wide = dense.product(spread.view(4 * maps, -1), patches).view(4, maps, -1)
        of_weight = _narrowed(of_wide * factor[:, None], weight.shape)
        return None, of_weight, of_bias, of_scale, of_shift, *[None] * 4


def _differentiable(
    grad: Tensor, x: Tensor, given: list[Tensor], wanted: tuple[bool, ...], eps: float
) -> list[Tensor | None]:
    """The gradients as PyTorch's layers have them, which know how to go on."""
    weight, bias, scale, shift = given
    maps = F.batch_norm(F.conv2d(x, weight, bias), None, None, scale, shift, True, eps=eps)
    leaves = [each for each, asked in zip(given, wanted, strict=True) if asked]
    out = F.max_pool2d(maps, 2).relu()
    found = iter(torch.autograd.grad(out, leaves, grad, create_graph=True))
    return [next(found) if asked else None for asked in wanted]


def _larger(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """The larger values, and ones where the first is not smaller."""
    return torch.maximum(one, other), torch.ge(one, other, out=torch.empty_like(one))


def _dealt(grad: Tensor, firsts: Tensor, dim: int) -> Tensor:
    """Every gradient at the first or second of its two places, along a new axis."""
    out = grad.new_empty((*grad.shape[:dim], 2, *grad.shape[dim:]))
    pooling.deal(grad, firsts, *out.unbind(dim))
    return out


# -- kernels and patches ---------------------------------------------------------------------------


def _pooled(shape: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, int]:
    """Height and width of what comes out."""
    return (shape[2] - kernel[2] + 1) // 2, (shape[3] - kernel[3] + 1) // 2


def _patches(x: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """What the larger kernels meet, every second pixel in its own picture  [C*(h+1)*(w+1),
    B*H'*W'].
    """
    high, wide = ((width + 1) // 2 for width in kernel[2:])
    images, channels, *size = x.shape
    pairs = x.reshape(images, channels, size[0] // 2, 2, size[1] // 2, 2)
    quarters = pairs.permute(1, 3, 5, 0, 2, 4).flatten(0, 2)  # [C*2*2, B, H/2, W/2]
    windows = quarters.unfold(2, high, 1).unfold(3, wide, 1).permute(0, 4, 5, 1, 2, 3)
    return windows.reshape(channels * 4 * high * wide, -1)


def _widened(weight: Tensor) -> Tensor:
    """A kernel at each of the four pixels of a window  [O, C, h, w] -> [4*O, C*(h+1)*(w+1)]."""
    maps, channels, high, wide = weight.shape
    placed = weight.reshape(-1, high * wide) @ _places(high, wide)
    return placed.view(maps, channels, 4, -1).permute(2, 0, 1, 3).reshape(4 * maps, -1)


def _narrowed(grad: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """The kernel's gradient from those of its four places  [4, O, C*(h+1)*(w+1)] -> [O, C, h,
    w].
    """
    maps, channels, high, wide = kernel
    placed = grad.view(4, maps, channels, -1).permute(1, 2, 0, 3).reshape(maps * channels, -1)
    return (placed @ _places(high, wide).t()).view(kernel)


@lru_cache(maxsize=16)
def _places(high: int, wide: int) -> Tensor:
    """Where each entry of a kernel lies in the four larger ones, in the order of patches  [h*w,
    4*(h+1)*(w+1)].
    """
    entries = torch.eye(high * wide).view(-1, high, wide)
    placed = [F.pad(entries, (j, 1 - j, i, 1 - i)) for i in (0, 1) for j in (0, 1)]
    phases = torch.stack(placed, 1).unflatten(2, (-1, 2)).unflatten(4, (-1, 2))
    return phases.permute(0, 1, 3, 5, 2, 4).flatten(1)
