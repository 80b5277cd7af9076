"""The models, by name."""

from __future__ import annotations

from collections.abc import Callable

from repfl.algorithms.core.model import Model
from repfl.algorithms.models.cnn4 import cnn4
from repfl.algorithms.models.lenet5 import lenet5
from repfl.algorithms.models.resnet import resnet8, resnet10, resnet18, resnet18_gn
from repfl.algorithms.models.tiny import tiny, tiny_bn

MODELS: dict[str, Callable[[int, int, int], Model]] = {
    "cnn4": cnn4,
    "lenet5": lenet5,
    "resnet8": resnet8,
    "resnet10": resnet10,
    "resnet18": resnet18,
    "resnet18-gn": resnet18_gn,
    "tiny": tiny,
    "tiny-bn": tiny_bn,
}


def build(name: str, *, channels: int, size: int, classes: int) -> Model:
    """A model for square images of the given size."""
    return MODELS[name](channels, size, classes)
