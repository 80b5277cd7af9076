"""The models, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from repfl.algorithms.core.model import Model, ModelError
from repfl.algorithms.models.cnn4 import cnn4
from repfl.algorithms.models.lenet5 import lenet5
from repfl.algorithms.models.mlp import mlp
from repfl.algorithms.models.resnet import resnet8, resnet10, resnet18, resnet18_gn
from repfl.algorithms.models.tiny import tiny, tiny_bn

Builder = Callable[[int, int, int], Any]
"""From channels, height (which is the width) and classes to a `Model`, or to an `nn.Module`."""
B = TypeVar("B", bound=Builder)

OURS: dict[str, Callable[[int, int, int], Model]] = {
    "cnn4": cnn4,
    "lenet5": lenet5,
    "mlp": mlp,
    "resnet8": resnet8,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet18-gn": resnet18_gn,
    "tiny": tiny,
    "tiny-bn": tiny_bn,
}
MODELS: dict[str, Builder] = dict(OURS)
"""Ours, and those that plugins register."""


def register(name: str) -> Callable[[B], B]:
    """Make a builder of models known: a function of (channels, size, classes), or a class whose
    constructor takes these. It may return a plain `nn.Module`.
    """

    def add(builder: B) -> B:
        if name in MODELS:
            raise ModelError(f"model {name!r} is registered twice")
        MODELS[name] = builder
        return builder

    return add


def build(name: str, *, channels: int, size: int, classes: int) -> Model:
    """A model for square images of the given size; features are images of one pixel, with as many
    channels.
    """
    if name in OURS:
        return OURS[name](channels, size, classes)
    from repfl.algorithms.core.modules import adapted

    shape = (channels, size, size)
    return adapted(name, lambda: MODELS[name](channels, size, classes), shape, classes)
