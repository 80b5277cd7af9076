"""LeNet-5 with batch norm, the model of Star-PFL and of the FedAP code base."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, batch_norm, conv, dense
from repfl.algorithms.core.ops import Mode


def lenet5(channels: int, size: int, classes: int) -> Model:
    """6 and 16 maps, 120 and 84 units; 44,555 parameters for 28x28 grey images and 11 classes."""
    side = ((size - 4) // 2 - 4) // 2
    maps = [
        *conv("conv1", channels, 6, 5),
        *batch_norm("bn1", 6),
        *conv("conv2", 6, 16, 5),
        *batch_norm("bn2", 16),
    ]
    units = [
        *dense("fc1", 16 * side * side, 120),
        *dense("fc2", 120, 84),
        *dense("fc3", 84, classes, head=True),
    ]
    return Model("lenet5", (*maps, *units), _body, "fc3")


def _body(p: Params, x: Tensor, mode: Mode) -> Tensor:
    x = ops.block(x, p, "conv1", "bn1", mode)
    x = ops.block(x, p, "conv2", "bn2", mode)
    x = ops.linear(x.flatten(-3), p["fc1.weight"], p["fc1.bias"]).relu()
    return ops.linear(x, p["fc2.weight"], p["fc2.bias"]).relu()
