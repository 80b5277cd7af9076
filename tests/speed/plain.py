"""What the engine is measured against: an ordinary module, an ordinary optimiser, one client after
the other.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet

from repfl.algorithms.core.federation import Federation


class _Resnet8(ResNet):
    """Three stages of one block."""

    def __init__(self) -> None:
        super().__init__(BasicBlock, [1, 1, 1, 1], num_classes=10)
        self.layer4, self.fc = nn.Sequential(), nn.Linear(256, 10)


def _cnn4() -> nn.Module:
    first = [nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
    units = [nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*first, *second, nn.Flatten(), *units)


def _lenet5() -> nn.Module:
    first = [nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)]
    second = [nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
    units = [nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)]
    return nn.Sequential(*first, *second, nn.Flatten(), *units)


NETS: dict[str, Callable[[], nn.Module]] = {
    "cnn4": _cnn4,
    "lenet5": _lenet5,
    "resnet8": _Resnet8,
    "resnet10": lambda: ResNet(BasicBlock, [1, 1, 1, 1], num_classes=10),
    "resnet18": lambda: ResNet(BasicBlock, [2, 2, 2, 2], num_classes=10),
}


class Plain:
    """One client's training and scoring in plain PyTorch, channels last, on the engine's own
    batches.
    """

    def __init__(self, name: str, fed: Federation) -> None:
        self.net = NETS[name]().to(fed.device).to(memory_format=torch.channels_last)
        self.optimiser = torch.optim.SGD(self.net.parameters(), lr=0.01)
        images = fed.data.images.to(fed.device).permute(0, 3, 1, 2) / 255
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = fed.data.labels
        self.own, self.batch = fed.data.train[0].to(fed.device), fed.protocol.batch

    def train(self) -> None:
        """One pass over the client's samples."""
        self.net.train()
        for index in self.own.split(self.batch):
            self.optimiser.zero_grad()
            self.loss(index).backward()
            self.optimiser.step()

    def loss(self, index: Tensor) -> Tensor:
        """Mean cross-entropy of a batch."""
        return F.cross_entropy(self.net(self.images[index]), self.labels[index])

    @torch.inference_mode()
    def score(self, samples: int) -> None:
        """How many of so many samples are right."""
        self.net.eval()
        int((self.net(self.images[:samples]).argmax(1) == self.labels[:samples]).sum())
