"""Two small networks for 8x8 digits: they train in seconds and have every kind of tensor."""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import BatchNorm2d, KeyedModule


class Tiny(KeyedModule):
    """One convolution, one hidden layer, no normalisation."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 3)
        self.fc1 = nn.Linear(8 * ((size - 2) // 2) ** 2, 32)
        self.fc2 = nn.Linear(32, classes)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.conv1(x)).relu()
        return self.fc2(self.fc1(x.flatten(1)).relu())


class TinyBN(KeyedModule):
    """Two convolutions with batch norm, one hidden layer."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 8, 3, padding=1, bias=False)
        self.bn1 = BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1, bias=False)
        self.bn2 = BatchNorm2d(16)
        self.fc1 = nn.Linear(16 * (size // 2) ** 2, 32)
        self.fc2 = nn.Linear(32, classes)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.bn1(self.conv1(x))).relu()
        x = self.bn2(self.conv2(x)).relu()
        return self.fc2(self.fc1(x.flatten(1)).relu())
