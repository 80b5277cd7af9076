"""The four-layer CNN of FL-bench's and FedOBP's experiments."""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import KeyedModule


class CNN4(KeyedModule):
    """Two 5x5 convolutions of 32 and 64 maps, two linear layers, 512 features, no normalisation:
    878,538 parameters for 32x32 RGB and 10 classes.
    """

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        side = ((size - 4) // 2 - 4) // 2
        self.conv1 = nn.Conv2d(channels, 32, 5)
        self.conv2 = nn.Conv2d(32, 64, 5)
        self.fc1 = nn.Linear(64 * side * side, 512)
        self.classifier = nn.Linear(512, classes)
        self.pool = nn.MaxPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.conv1(x)).relu()
        x = self.pool(self.conv2(x)).relu()
        return self.classifier(self.fc1(x.flatten(1)).relu())
