"""Gradients of a convolution taken apart: a matter of processors.

oneDNN adds up a bias's gradient along with the weight's, which takes several times as long as a sum
of its own; and where fewer maps go in than a vector has places, it makes their gradients quicker
map by map than pixel by pixel. The sums are those of a convolution, added up in another order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.dense import plain

LARGE = 1 << 11
"""Entries of a kernel from which on this was measured to be quicker."""
FEW = 8
"""So many maps get their gradients map by map."""


def pay(x: Tensor, weight: Tensor) -> bool:
    """Whether gradients are quicker apart: x [B, C, H, W], weight [O, C, h, w]."""
    return worth(weight.shape) and torch.is_grad_enabled() and plain(x)


def worth(kernel: tuple[int, ...]) -> bool:
    """Whether a kernel [O, C, h, w] with a bias is one of those."""
    return kernel[1] > 1 and kernel[0] * kernel[1] * kernel[2] * kernel[3] >= LARGE


def conv2d(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int) -> Tensor:
    """x [B, C, H, W] -> [B, O, H', W'], channels last."""
    out: Tensor = _Convolution.apply(x, weight, bias, stride, padding)
    return out


class _Convolution(torch.autograd.Function):
    """Without a `setup_context`, for which PyTorch reads the signature anew at every call."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: int
    ) -> Tensor:
        pixels = x.contiguous(memory_format=torch.channels_last)
        ctx.save_for_backward(x, pixels, weight)
        ctx.how, ctx.by_map = (stride, padding), pixels is not x
        return F.conv2d(pixels, weight, bias, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, pixels, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad[:3]
        if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
            return *_gradients(grad, x, weight, ctx.how, (of_x, of_weight, of_bias)), None, None
        few = of_x and x.shape[1] <= FEW
        found = _gradients(grad, pixels, weight, ctx.how, (of_x and not few, of_weight, False))
        maps = _map_by_map(grad, x, weight, ctx.how, ctx.by_map) if few else found[0]
        return maps, found[1], grad.sum((0, 2, 3)) if of_bias else None, None, None


def _map_by_map(
    grad: Tensor, x: Tensor, weight: Tensor, how: tuple[int, int], by_map: bool
) -> Tensor | None:
    """The gradient of what went in, which is left as it is made or as x lies."""
    shape = x.new_empty(x.shape)  # of which nothing else is read
    operands = grad.contiguous(), shape, weight.contiguous()
    maps = _gradients(*operands, how, (True, False, False))[0]
    assert maps is not None
    return maps if by_map else maps.contiguous(memory_format=torch.channels_last)


def _gradients(
    grad: Tensor, x: Tensor, weight: Tensor, how: tuple[int, int], wanted: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """Gradients of input, weight and bias as PyTorch's convolution has them."""
    if not any(wanted):
        return None, None, None
    stride, padding = ([size, size] for size in how)
    found: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward(
        grad, x, weight, [len(weight)], stride, padding, [1, 1], False, [0, 0], 1, [*wanted]
    )
    return found
