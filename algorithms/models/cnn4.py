"""The four-layer CNN of FL-bench's and FedOBP's experiments: two 5x5 convolutions, two linear
layers, no normalisation.
"""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, conv, dense
from repfl.algorithms.core.ops import Mode


def cnn4(channels: int, size: int, classes: int) -> Model:
    """32 and 64 maps, 512 features; 878,538 parameters for 32x32 RGB and 10 classes."""
    side = ((size - 4) // 2 - 4) // 2
    specs = [
        *conv("conv1", channels, 32, 5),
        *conv("conv2", 32, 64, 5),
        *dense("fc1", 64 * side * side, 512),
    ]
    return Model(
        "cnn4", (*specs, *dense("classifier", 512, classes, head=True)), _body, "classifier"
    )


def _body(p: Params, x: Tensor, mode: Mode) -> Tensor:
    x = ops.max_pool(ops.conv2d(x, p["conv1.weight"], p["conv1.bias"]), 2).relu()
    x = ops.max_pool(ops.conv2d(x, p["conv2.weight"], p["conv2.bias"]), 2).relu()
    return ops.linear(x.flatten(-3), p["fc1.weight"], p["fc1.bias"]).relu()
