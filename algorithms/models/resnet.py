"""Residual networks with basic blocks, in the two forms that the papers use.

With batch norm: the ImageNet stem (7x7 stride 2, max pooling), as torchvision builds them. With
group norm: the CIFAR stem (3x3 stride 1, no pooling) and 32 groups, as the Dis-PFL code builds it.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import BatchNorm2d, KeyedModule

Norm = Callable[[int], nn.Module]


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.norm1 = norm(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = norm(width)
        self.projects = stride > 1 or inputs != width
        if self.projects:
            self.shortcut = nn.Conv2d(inputs, width, 1, stride, bias=False)
            self.shortcut_norm = norm(width)

    def forward(self, x: Tensor) -> Tensor:
        out = self.norm1(self.conv1(x)).relu()
        out = self.norm2(self.conv2(out))
        return (out + (self.shortcut_norm(self.shortcut(x)) if self.projects else x)).relu()


class ResNet(KeyedModule):
    """Stages of basic blocks, 64 maps in the first, twice as many in each further one."""

    def __init__(
        self, channels: int, classes: int, depths: tuple[int, ...], *, cifar: bool = False
    ) -> None:
        super().__init__()
        norm: Norm = (lambda width: nn.GroupNorm(32, width)) if cifar else BatchNorm2d
        self.he_normal = not cifar
        self.stem = (
            nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
            if cifar
            else nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        )
        self.stem_norm = norm(64)
        self.stem_pool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        self.layers, inputs = nn.ModuleList(), 64
        for stage, depth in enumerate(depths):
            blocks, width = nn.ModuleList(), 64 << stage
            for index in range(depth):
                blocks.append(Block(inputs, width, 2 if stage and not index else 1, norm))
                inputs = width
            self.layers.append(blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem_pool(self.stem_norm(self.stem(x))).relu()
        for stage in self.layers:
            for block in stage:  # type: ignore[attr-defined]
                x = block(x)
        return self.fc(x.mean(dim=(-2, -1)))


def resnet8(channels: int, size: int, classes: int) -> ResNet:
    """Three stages of one block; 1,235,274 parameters for RGB and 10 classes."""
    return ResNet(channels, classes, (1, 1, 1))


def resnet10(channels: int, size: int, classes: int) -> ResNet:
    """Four stages of one block; 4,957,092 parameters for RGB and 100 classes."""
    return ResNet(channels, classes, (1, 1, 1, 1))


def resnet18(channels: int, size: int, classes: int) -> ResNet:
    """Four stages of two blocks; 11,181,642 parameters for RGB and 10 classes."""
    return ResNet(channels, classes, (2, 2, 2, 2))


def resnet18_gn(channels: int, size: int, classes: int) -> ResNet:
    """Four stages of two blocks with group norm; 11,173,962 parameters for RGB and 10 classes."""
    return ResNet(channels, classes, (2, 2, 2, 2), cifar=True)
