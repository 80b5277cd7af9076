"""Layers over a client axis: weights [K, ...], inputs [K, B, ...].

This is the seam between mathematics and speed. One client (K = 1) takes PyTorch's ordinary path;
several take one kernel for all of them. A single client may also come without the axis, which saves
every layer two views; it is squeezed, never indexed: the gradient of an index is a copy into zeros
that forgets the channels-last order. A forward pass is described by a `Mode`: whether normalisation
uses and updates batch statistics, and which samples are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import apart, blocks, dense, entries, pooling, windows
from repfl.algorithms.core.layout import Params

Convolution = Literal["auto", "grouped", "matmul", "windows", "onednn", "apart"]
"""How a convolution treats several clients: as groups, or as one batched product of patches; and
whether a processor takes a single client's small maps window by window, or its large linear layers
by oneDNN; there also with small maps, gradients of convolutions taken apart and blocks of layers as
one.
"""
CONVOLUTIONS: tuple[str, ...] = get_args(Convolution)

_CONVOLUTION: ContextVar[Convolution] = ContextVar("convolution", default="auto")
PATCH = 576
"""Patches up to this size go as a batched product on a GPU, unless something was measured."""

BN_MOMENTUM = 0.1
EPSILON = 1e-5


@dataclass(frozen=True)
class Mode:
    """How a forward pass treats normalisation and padding."""

    train: bool = False
    valid: Tensor | None = None
    """Which samples are real  [K, B] bool; none: all."""
    tap: Callable[[str, Tensor, Tensor], None] | None = None
    """Told the name, input and output of every batch-norm layer."""


EVAL = Mode()


@contextmanager
def convolution(how: Convolution) -> Iterator[None]:
    """Convolutions of several clients are computed like this inside."""
    token = _CONVOLUTION.set(how)
    try:
        yield
    finally:
        _CONVOLUTION.reset(token)


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: int = 1, padding: int = 0
) -> Tensor:
    """x [K, B, C, H, W], weight [K, O, C, h, w] -> [K, B, O, H', W']."""
    if weight.dim() == 4:
        return _conv_alone(x, weight, bias, stride, padding)
    if len(weight) == 1:
        own = None if bias is None else bias.squeeze(0)
        return _conv_alone(x.squeeze(0), weight.squeeze(0), own, stride, padding).unsqueeze(0)
    how = _CONVOLUTION.get()
    if how not in ("grouped", "matmul"):
        how = "matmul" if x.device.type == "cuda" and weight[0, 0].numel() <= PATCH else "grouped"
    if how == "matmul":
        return _conv_matmul(x, weight, bias, stride, padding)
    return _conv_grouped(x, weight, bias, stride, padding)


def _conv_alone(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> Tensor:
    """One client's convolution; x [B, C, H, W], weight [O, C, h, w]."""
    how = _CONVOLUTION.get()
    if how == "windows" and windows.pay(x, weight, stride, padding):
        return windows.conv2d(x, weight, bias, stride, padding)
    if how == "apart" and entries.pay(x, weight, stride, padding):
        return entries.conv2d(x, weight, bias, stride, padding)
    if how == "apart" and bias is not None and apart.pay(x, weight):
        return apart.conv2d(x, weight, bias, stride, padding)
    return F.conv2d(x, weight, bias, stride, padding)


def _conv_grouped(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> Tensor:
    """Clients as groups of one convolution. On a GPU both operands are laid out channels-first: for
    channels-last ones cuDNN has no quick grouped kernel.
    """
    clients, batch, channels, height, width = x.shape
    wide = x.transpose(0, 1).reshape(batch, clients * channels, height, width)
    kernels = weight.flatten(0, 1)
    if x.device.type == "cuda":
        wide, kernels = wide.contiguous(), kernels.contiguous()
    out = F.conv2d(
        wide, kernels, None if bias is None else bias.flatten(), stride, padding, groups=clients
    )
    return out.unflatten(1, (clients, -1)).transpose(0, 1)


def _conv_matmul(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> Tensor:
    """Patches as rows, then one batched matrix product.

    Pixels lie channels-last, so a patch is copied in long runs; channels are filled up to a
    multiple of four, the least that tensor cores take, and lower precision begins before patches
    are copied.
    """
    if torch.is_autocast_enabled(x.device.type):
        x = x.to(torch.get_autocast_dtype(x.device.type))
    high, wide = weight.shape[3:]
    room = -x.shape[2] % 4
    pixels = x.permute(0, 1, 3, 4, 2)  # [K, B, H, W, C]
    kernels = weight.permute(0, 3, 4, 2, 1)  # [K, h, w, C, O]
    if room or padding:
        pixels = F.pad(pixels, (0, room, *(padding,) * 4))
    if room:
        kernels = F.pad(kernels, (0, 0, 0, room))
    patches = pixels.unfold(2, high, stride).unfold(3, wide, stride)  # [K, B, H', W', C, h, w]
    rows = patches.permute(0, 1, 2, 3, 5, 6, 4).flatten(4).flatten(1, 3)  # [K, B*L, h*w*C], a copy
    columns = kernels.flatten(1, 3)  # [K, h*w*C, O]
    if bias is None:
        out = torch.bmm(rows, columns)  # [K, B*L, O]
    else:
        out = torch.baddbmm(bias[:, None, :], rows, columns)
    return out.unflatten(1, (x.shape[1], *patches.shape[2:4])).permute(0, 1, 4, 2, 3)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x [K, B, I], weight [K, O, I] -> [K, B, O]."""
    if weight.dim() == 2:
        return _linear_alone(x, weight, bias)
    if len(weight) == 1:
        return _linear_alone(x.squeeze(0), weight.squeeze(0), bias.squeeze(0)).unsqueeze(0)
    return torch.baddbmm(bias[:, None, :], x, weight.transpose(1, 2))


def _linear_alone(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One client's linear layer; x [B, I], weight [O, I]."""
    if _CONVOLUTION.get() in ("onednn", "apart") and dense.pay(x, weight):
        return dense.linear(x, weight, bias)
    return F.linear(x, weight, bias)


def max_pool(x: Tensor, size: int, stride: int | None = None, padding: int = 0) -> Tensor:
    """x [K, B, C, H, W], pooled over H and W."""
    alone = x.dim() == 4
    images = x if alone else x.squeeze(0) if len(x) == 1 else x.flatten(0, 1)
    if images.device.type == "cuda" and stride is not None and stride < size:
        images = (
            images.contiguous()
        )  # the channels-last kernel adds the gradients of overlapping windows in any order
    if size == 2 and stride is None and not padding and pooling.pay(images):
        out = pooling.largest(images)
    else:
        out = F.max_pool2d(images, size, stride, padding)
    return out if alone else out.unsqueeze(0) if len(x) == 1 else out.unflatten(0, x.shape[:2])


def global_average(x: Tensor) -> Tensor:
    """x [K, B, C, H, W] -> [K, B, C]."""
    return x.mean(dim=(-2, -1))


def group_norm(x: Tensor, weight: Tensor, bias: Tensor, groups: int) -> Tensor:
    """Normalise each sample over groups of channels; x [K, B, C, H, W]."""
    if x.dim() == 4:
        return F.group_norm(x, groups, weight, bias, EPSILON)
    if len(x) == 1:
        return F.group_norm(
            x.squeeze(0), groups, weight.squeeze(0), bias.squeeze(0), EPSILON
        ).unsqueeze(0)
    plain = F.group_norm(x.flatten(0, 1), groups, eps=EPSILON).unflatten(0, x.shape[:2])
    return plain * weight[:, None, :, None, None] + bias[:, None, :, None, None]


def batch_norm(x: Tensor, params: Params, name: str, mode: Mode) -> Tensor:
    """Normalise over the real samples of each client's own batch; x [K, B, C, H, W].

    Training updates the running statistics in place. A batch that offers one value per channel has
    no variance: it leaves them alone.
    """
    mean, var, weight, bias = (params[f"{name}.{p}"] for p in ("mean", "var", "weight", "bias"))
    single = mode.train and x.numel() == mean.numel()
    if x.dim() == 4:
        if not single:
            return F.batch_norm(x, mean, var, weight, bias, mode.train, BN_MOMENTUM, EPSILON)
        stacked = {key: value.unsqueeze(0) for key, value in params.items()}
        return batch_norm(x.unsqueeze(0), stacked, name, mode).squeeze(0)
    if len(x) == 1 and mode.valid is None and not single:
        stats, affine = (mean.squeeze(0), var.squeeze(0)), (weight.squeeze(0), bias.squeeze(0))
        out = F.batch_norm(
            x.squeeze(0), *stats, *affine, mode.train, BN_MOMENTUM, EPSILON
        ).unsqueeze(0)
    else:
        if mode.train:
            mean, var = _batch_statistics(x, mean, var, mode.valid)
        scale = weight * torch.rsqrt(var + EPSILON)
        out = x * scale[:, None, :, None, None] + (bias - mean * scale)[:, None, :, None, None]
    if mode.tap is not None:
        mode.tap(name, x, out)
    return out


def block(x: Tensor, params: Params, conv: str, norm: str, mode: Mode) -> Tensor:
    """A convolution, batch norm, pooling over 2 x 2 and ReLU; x [K, B, C, H, W]."""
    weight, bias = params[f"{conv}.weight"], params[f"{conv}.bias"]
    if x.dim() == 4 and mode.train and _CONVOLUTION.get() == "apart" and blocks.pay(x, weight):
        own = tuple(params[f"{norm}.{p}"] for p in ("weight", "bias", "mean", "var"))
        return blocks.forward(x, weight, bias, own, BN_MOMENTUM, EPSILON)
    return max_pool(batch_norm(conv2d(x, weight, bias), params, norm, mode), 2).relu()


def _batch_statistics(
    x: Tensor, running_mean: Tensor, running_var: Tensor, valid: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Mean and variance over real samples [K, C]; running statistics move towards them (variance
    unbiased, as PyTorch does).

    Halved inputs are measured in the precision of the statistics: as sums they would lose samples.
    """
    x = x.to(running_mean.dtype)
    clients, batch, _, height, width = x.shape
    real = (
        torch.ones(clients, batch, dtype=x.dtype, device=x.device)
        if valid is None
        else valid.to(x.dtype)
    )
    count = real.sum(dim=1, keepdim=True) * (height * width)  # [K, 1]
    weight = real[:, :, None, None, None]
    mean = (x * weight).sum(dim=(1, 3, 4)) / count
    centred = (x - mean[:, None, :, None, None]) * weight
    var = centred.square().sum(dim=(1, 3, 4)) / count
    with torch.no_grad():
        step = BN_MOMENTUM * (count > 1).to(x.dtype)
        running_mean += step * (mean - running_mean)
        running_var += step * (var * count / (count - 1).clamp(min=1) - running_var)
    return mean, var
