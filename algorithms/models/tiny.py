"""Two small networks for 8x8 digits: they train in seconds and have every kind of tensor that
methods tell apart.
"""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, batch_norm, conv, dense
from repfl.algorithms.core.ops import Mode


def tiny(channels: int, size: int, classes: int) -> Model:
    """One convolution, one hidden layer, no normalisation."""
    specs = [*conv("conv1", channels, 8, 3), *dense("fc1", 8 * ((size - 2) // 2) ** 2, 32)]
    return Model("tiny", (*specs, *dense("fc2", 32, classes, head=True)), _body, "fc2")


def _body(p: Params, x: Tensor, mode: Mode) -> Tensor:
    x = ops.max_pool(ops.conv2d(x, p["conv1.weight"], p["conv1.bias"]), 2).relu()
    return ops.linear(x.flatten(-3), p["fc1.weight"], p["fc1.bias"]).relu()


def tiny_bn(channels: int, size: int, classes: int) -> Model:
    """Two convolutions with batch norm, global average pooling, a linear head."""
    maps = [
        *conv("conv1", channels, 8, 3, bias=False),
        *batch_norm("bn1", 8),
        *conv("conv2", 8, 16, 3, bias=False),
        *batch_norm("bn2", 16),
    ]
    return Model(
        "tiny-bn",
        (*maps, *dense("fc1", 16 * (size // 2) ** 2, 32), *dense("fc2", 32, classes, head=True)),
        _body_bn,
        "fc2",
    )


def _body_bn(p: Params, x: Tensor, mode: Mode) -> Tensor:
    x = ops.batch_norm(ops.conv2d(x, p["conv1.weight"], padding=1), p, "bn1", mode)
    x = ops.max_pool(x, 2).relu()
    x = ops.batch_norm(ops.conv2d(x, p["conv2.weight"], padding=1), p, "bn2", mode).relu()
    return ops.linear(x.flatten(-3), p["fc1.weight"], p["fc1.bias"]).relu()
