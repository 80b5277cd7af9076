"""Convolutions that come out as a few pixels, as matrix products: a matter of processors.

ImageNet's networks shrink pictures of 32 x 32 to maps of four pixels or one, where a kernel of
3 x 3 meets padding with most of its entries. Here every pixel that comes out takes the window of
the kernel that meets pixels, row by row: in channels-last order a row of it is one piece of memory.
The sums are those of a convolution, added up in another order. `entries` does it with oneDNN.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

FEW = 4
"""So many pixels may come out."""
LARGE = 1 << 15
"""Entries of a kernel from which on this was measured to be quicker."""


def pay(x: Tensor, weight: Tensor, stride: int, padding: int) -> bool:
    """Whether windows are quicker than a convolution: x [B, C, H, W], weight [O, C, h, w]."""
    if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or weight.numel() < LARGE:
        return False
    high, wide = came_out(x.shape[2:], weight.shape[2:], stride, padding)
    return high * wide <= FEW and padding < min(weight.shape[2:])


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """x [B, C, H, W] -> [B, O, H', W'], channels last."""
    out: Tensor = _Windows.apply(x, weight, stride, padding)
    return out if bias is None else out + bias[:, None, None]


class _Windows(torch.autograd.Function):
    """Without a `setup_context`, for which PyTorch reads the signature anew at every call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.padding = stride, padding
        pixels, kernel = _rows(x), _rows(weight)
        high, wide = came_out(x.shape[2:], weight.shape[2:], stride, padding)
        out = x.new_empty(len(x), high, wide, len(weight))
        flat = out.flatten(1)
        for row in _meetings(x.shape[1:], weight.shape, stride, padding):
            ours, theirs = pixels[:, row.pixels], kernel[:, row.entries].t()
            if row.first:
                torch.mm(ours, theirs, out=flat[:, row.out])
            else:
                flat[:, row.out].addmm_(ours, theirs)
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        wanted, how = ctx.needs_input_grad[:2], (ctx.stride, ctx.padding)
        if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
            return *differentiable(grad, x, weight, *how, wanted), None, None
        pixels, kernel, rising = _rows(x), _rows(weight), _rows(grad)
        of_x, of_weight = (
            torch.zeros_like(rows) if asked else None
            for rows, asked in zip((pixels, kernel), wanted, strict=True)
        )
        for row in _meetings(x.shape[1:], weight.shape, *how):
            here = rising[:, row.out]
            if of_x is not None:
                of_x[:, row.pixels].addmm_(here, kernel[:, row.entries])
            if of_weight is not None:
                of_weight[:, row.entries].addmm_(here.t(), pixels[:, row.pixels])
        return _maps(of_x, x), _maps(of_weight, weight), None, None


def differentiable(
    grad: Tensor, x: Tensor, weight: Tensor, stride: int, padding: int, wanted: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients as PyTorch's convolution has them, which knows how to go on."""
    found = torch.ops.aten.convolution_backward(
        grad,
        x,
        weight,
        None,
        [stride] * 2,
        [padding] * 2,
        [1, 1],
        False,
        [0, 0],
        1,
        [*wanted, False],
    )
    return found[0], found[1]


def _rows(maps: Tensor) -> Tensor:
    """[N, C, H, W] -> [N, H*W*C], a view of what lies channels-last."""
    return maps.permute(0, 2, 3, 1).contiguous().flatten(1)


def _maps(rows: Tensor | None, like: Tensor) -> Tensor | None:
    """The way back."""
    if rows is None:
        return None
    count, channels, high, wide = like.shape
    return rows.view(count, high, wide, channels).permute(0, 3, 1, 2)


class Meeting(NamedTuple):
    """Pixels of a row, the entries of the kernel that meet them, and the pixel that comes out."""

    pixels: slice
    entries: slice
    out: slice
    first: bool
    """Whether nothing has come out there yet."""


@lru_cache(maxsize=256)
def _meetings(
    shape: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int
) -> tuple[Meeting, ...]:
    """All meetings of an image [C, H, W] with a kernel [O, C, h, w]."""
    channels, high, wide = shape
    down, across = (
        [_overlap(place * stride - padding, *sizes) for place in range(count)]
        for count, sizes in zip(
            came_out(shape[1:], kernel[2:], stride, padding),
            ((high, kernel[2]), (wide, kernel[3])),
            strict=True,
        )
    )
    found = []
    for i, (top, upper, rows) in enumerate(down):
        for j, (left, first, run) in enumerate(across):
            for k in range(rows):
                place, entry = (top + k) * wide + left, (upper + k) * kernel[3] + first
                found.append(
                    Meeting(
                        slice(place * channels, (place + run) * channels),
                        slice(entry * channels, (entry + run) * channels),
                        slice(
                            (i * len(across) + j) * kernel[0], (i * len(across) + j + 1) * kernel[0]
                        ),
                        not k,
                    )
                )
    return tuple(found)


def _overlap(start: int, size: int, kernel: int) -> tuple[int, int, int]:
    """A kernel that begins at `start` of an axis: its first pixel, the entry there, how many."""
    first, end = max(start, 0), min(start + kernel, size)
    return first, first - start, end - first


def came_out(
    size: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int
) -> tuple[int, int]:
    """Height and width of what comes out."""
    high, wide = (
        (have + 2 * padding - width) // stride + 1 for have, width in zip(size, kernel, strict=True)
    )
    return high, wide
