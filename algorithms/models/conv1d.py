"""A small one-dimensional convolutional network for signals of several sensors."""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import KeyedModule


class Conv1d(KeyedModule):
    """16 and 32 maps with batch norm, 32 units: 7,718 parameters for 9 x 128 and 6 classes."""

    inputs = "signals"

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        # strides instead of pooling, which costs as much as a convolution at this size
        self.conv1 = nn.Conv1d(channels, 16, 8, stride=8)
        self.bn1 = nn.BatchNorm1d(16)
        self.conv2 = nn.Conv1d(16, 32, 4, stride=4)
        self.bn2 = nn.BatchNorm1d(32)
        self.fc1 = nn.Linear(32 * (size // 8 // 4), 32)
        self.fc2 = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.bn1(self.conv1(x)).relu()
        x = self.bn2(self.conv2(x)).relu()
        return self.fc2(self.fc1(x.flatten(1)).relu())
