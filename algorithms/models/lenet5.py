"""LeNet-5 with batch norm, the model of Star-PFL and of the FedAP code base."""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import BatchNorm2d, KeyedModule


class LeNet5(KeyedModule):
    """6 and 16 maps, 120 and 84 units: 44,555 parameters for 28x28 grey images and 11 classes."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        side = ((size - 4) // 2 - 4) // 2
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.bn1 = BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.bn2 = BatchNorm2d(16)
        self.fc1 = nn.Linear(16 * side * side, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.bn1(self.conv1(x))).relu()
        x = self.pool(self.bn2(self.conv2(x))).relu()
        x = self.fc1(x.flatten(1)).relu()
        return self.fc3(self.fc2(x).relu())
