"""A small network with layers of every kind, for methods that work on some of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

NAME = "every-kind"


class EveryKind(nn.Module):
    """Patches by a convolution, embedded places, attention, norms of three kinds, linear layers."""

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, 8, 2, stride=2)
        self.norm = nn.GroupNorm(2, 8)
        self.places = nn.Embedding((size // 2) ** 2, 8)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm1 = nn.LayerNorm(8)
        self.fc1 = nn.Linear(8, 16)
        self.norm2 = nn.BatchNorm1d(16)
        self.fc2 = nn.Linear(16, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.patches(x)).flatten(2).mT  # [B, places, 8]
        x = x + self.places(torch.arange(x.shape[1], device=x.device))
        x = self.norm1(x + self.attention(x, x, x, need_weights=False)[0])
        return self.fc2(self.norm2(self.fc1(x.mean(1)).relu()))
