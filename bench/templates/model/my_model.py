"""My model: a plain PyTorch module.

It is given the channels and the size of square images (of features: their number, and 1) and the
number of classes. Its last nn.Linear is the head that methods like FedPer keep at the client, and
must be what `forward` returns.
"""

from __future__ import annotations

from torch import Tensor, nn

from repfl.algorithms.models import register


@register("my-model")
class MyModel(nn.Module):
    """Two convolutions with batch norm, global average pooling, a linear head."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.head = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        """x [B, C, H, W] -> [B, classes]."""
        logits: Tensor = self.head(self.body(x))
        return logits
