"""A small vision transformer: 64 tokens of a 32 x 32 image, four blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from repfl.algorithms.engine.keyed_init import KeyedModule

WIDTH, HEADS, BLOCKS = 64, 4, 4


class Block(nn.Module):
    """Self-attention and two linear layers, each after a normalisation and beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.fc1, self.fc2 = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.act = nn.GELU()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.out(self.attend(self.qkv(self.norm1(x))))
        return x + self.fc2(self.act(self.fc1(self.norm2(x))))

    def attend(self, qkv: Tensor) -> Tensor:
        """Mix tokens by the similarity of queries and keys  [B, T, 3 W] -> [B, T, W]."""
        q, k, v = qkv.unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)  # [B, heads, T, F] each
        shares = (q @ k.transpose(2, 3) * q.shape[3] ** -0.5).softmax(3)
        return (shares @ v).transpose(1, 2).flatten(2)


class ViT4(KeyedModule):
    """Patches of 4 x 4 pixels (2 x 2 of images below 16 x 16), four blocks of width 64, the mean of
    all tokens. Places are told by fixed sines and cosines.
    """

    places: Tensor

    def __init__(self, channels: int, size: int, classes: int) -> None:
        super().__init__()
        patch = 4 if size >= 16 else 2
        self.patches = nn.Conv2d(channels, WIDTH, patch, stride=patch)
        self.blocks = nn.Sequential(*(Block() for _ in range(BLOCKS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes)
        rates = 10_000 ** -(torch.arange(0, WIDTH, 2) / WIDTH)
        angles = torch.arange((size // patch) ** 2)[:, None] * rates  # [T, W / 2]
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places  # [B, T, W]
        return self.head(self.norm(self.blocks(x)).mean(1))
