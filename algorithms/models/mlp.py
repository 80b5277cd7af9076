"""A network of one hidden layer, for features that are no images, and for images as vectors."""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import KeyedModule


class MLP(KeyedModule):
    """All inputs in one vector, 64 hidden units."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(channels * size * size, 64)
        self.fc2 = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.fc1(x.flatten(1)).relu())
