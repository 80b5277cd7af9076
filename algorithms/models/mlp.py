"""A network of one hidden layer, for features that are not images, and for images as vectors."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core import ops
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.model import Model, dense
from repfl.algorithms.core.ops import Mode

HIDDEN = 64


def mlp(channels: int, size: int, classes: int) -> Model:
    """All inputs in one vector, 64 hidden units."""
    specs = [
        *dense("fc1", channels * size * size, HIDDEN),
        *dense("fc2", HIDDEN, classes, head=True),
    ]
    return Model("mlp", tuple(specs), _body, "fc2")


def _body(p: Params, x: Tensor, mode: Mode) -> Tensor:
    return ops.linear(x.flatten(-3), p["fc1.weight"], p["fc1.bias"]).relu()
