"""Convolutions that come out as a few pixels, entry of the kernel by entry: a matter of processors.

oneDNN multiplies quicker than PyTorch's own library (`dense`), but only matrices that are whole
pieces of memory, and a call costs as much as a small product. So every entry of the kernel takes
all pixels that it meets at once. The sums are those of a convolution, added up in another order.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from repfl.algorithms.core import dense, windows


def pay(x: Tensor, weight: Tensor, stride: int, padding: int) -> bool:
    """Whether entries are quicker than a convolution: x [B, C, H, W], weight [O, C, h, w]."""
    return dense.plain(x) and windows.pay(x, weight, stride, padding)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int) -> Tensor:
    """x [B, C, H, W] -> [B, O, H', W'], channels last. A kernel's gradient lies in memory entry by
    entry; one that lies so itself is not copied.
    """
    out: Tensor = _Entries.apply(x, weight, stride, padding)
    return out if bias is None else out + bias[:, None, None]


def own(kernels: Tensor) -> bool:
    """Whether a single client's kernel [1, O, C, h, w] lies in memory entry by entry."""
    single = kernels.dim() == 5 and len(kernels) == 1
    return single and kernels.permute(0, 3, 4, 1, 2).is_contiguous()


class _Entries(torch.autograd.Function):
    """Without a `setup_context`, for which PyTorch reads the signature anew at every call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        met = _entries(x.shape[2:], weight.shape[2:], stride, padding)
        kernels = _pixels(weight).unbind()
        ours = _pixels(x).index_select(0, met.pixels).view(-1, x.shape[1])
        parts = ours.split([count * len(x) for count in met.counts])
        found = [
            dense.product(part, kernels[entry].contiguous())
            for entry, part in zip(met.entries, parts, strict=True)
        ]
        high, wide = windows.came_out(x.shape[2:], weight.shape[2:], stride, padding)
        out = _summed(found, met.out, (high * wide, len(x), len(weight)))
        ctx.save_for_backward(x, weight, ours)
        ctx.stride, ctx.padding = stride, padding
        return _maps(out, high, wide)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight, ours = ctx.saved_tensors
        wanted, how = ctx.needs_input_grad[:2], (ctx.stride, ctx.padding)
        if torch.is_grad_enabled():  # somebody wants to differentiate the gradient
            return *windows.differentiable(grad, x, weight, *how, wanted), None, None
        met = _entries(x.shape[2:], weight.shape[2:], *how)
        sizes = [count * len(x) for count in met.counts]
        rising = _pixels(grad).index_select(0, met.out).view(-1, len(weight)).split(sizes)
        of_x = of_weight = None
        if wanted[0]:
            kernels = _pixels(weight).unbind()
            found = [
                dense.product(part, kernels[entry].contiguous().t())
                for entry, part in zip(met.entries, rising, strict=True)
            ]
            shape = prod(x.shape[2:]), len(x), x.shape[1]
            of_x = _maps(_summed(found, met.pixels, shape), *x.shape[2:])
        if wanted[1]:
            of_weight = weight.new_empty(*weight.shape[2:], *weight.shape[:2])
            if len(met.entries) < prod(weight.shape[2:]):
                of_weight.zero_()
            places = of_weight.flatten(0, 1).unbind()
            for entry, part, own in zip(met.entries, rising, ours.split(sizes), strict=True):
                places[entry].copy_(dense.product(part.t(), own.t()))
            of_weight = of_weight.permute(2, 3, 0, 1)
        return of_x, of_weight, None, None


def _pixels(maps: Tensor) -> Tensor:
    """[N, C, H, W] -> [H*W, N, C], a view of what lies channels-last or pixel by pixel."""
    return maps.permute(2, 3, 0, 1).flatten(0, 1)


def _maps(pixels: Tensor, high: int, wide: int) -> Tensor:
    """[H*W, N, C] -> [N, C, H, W], channels last."""
    return pixels.transpose(0, 1).unflatten(1, (high, wide)).contiguous().permute(0, 3, 1, 2)


def _summed(found: list[Tensor], places: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """What belongs to the same pixel, added up  [pixels, B, C]."""
    if len(found) == 1 and len(places) == shape[0]:
        return found[0].view(shape)
    sums = found[0].new_zeros(shape)
    return sums.index_add_(0, places, torch.cat(found).view(-1, *shape[1:]))


class Met(NamedTuple):
    """Which entries of the kernel meet pixels: those, and how many each of them does; then entry by
    entry the pixels that it meets, and those that come out.
    """

    entries: list[int]
    counts: list[int]
    pixels: Tensor
    out: Tensor


@lru_cache(maxsize=256)
def _entries(size: tuple[int, ...], kernel: tuple[int, ...], stride: int, padding: int) -> Met:
    outs = windows.came_out(size, kernel, stride, padding)
    pairs: dict[int, list[tuple[int, int]]] = {}
    for i, j, high, wide in product(*map(range, (*kernel, *outs))):
        row, column = high * stride - padding + i, wide * stride - padding + j
        if 0 <= row < size[0] and 0 <= column < size[1]:
            pair = row * size[1] + column, high * outs[1] + wide
            pairs.setdefault(i * kernel[1] + j, []).append(pair)
    pixels, out = torch.tensor([pair for found in pairs.values() for pair in found]).unbind(1)
    return Met(list(pairs), list(map(len, pairs.values())), pixels.clone(), out.clone())
