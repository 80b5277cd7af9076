"""Training augmentations, batched on the device.

An augmentation draws its random parameters per sample on the CPU, from a generator that the caller
keys by seed, round, client and epoch. It then transforms whole batches of tensors. It has two
hooks, since protocols differ in what they do before and after normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from repfl.datasets.core.errors import DataError, nearest

Draws = Mapping[str, Tensor]  # one entry per parameter, each [B]
PAD = 4  # pixels of zeros around an image before it is cropped back
DEGREES = 15.0


@dataclass(frozen=True)
class Augmentation:
    """A named sequence of steps; images are float [B, C, H, W]."""

    name: str
    flip: bool = False  # horizontal, p = 1/2
    rotate: bool = False  # uniform within +-15 degrees, nearest pixel, zeros outside
    crop: bool = False  # pad 4, crop to the original size at random
    crop_after: bool = (
        False  # crop after normalisation: the border is then the mean colour, not black
    )

    def draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Parameters of n samples."""
        draws: dict[str, np.ndarray] = {}
        if self.flip:
            draws["flip"] = rng.random(n) < 0.5
        if self.rotate:
            angle = np.deg2rad(rng.uniform(-DEGREES, DEGREES, n))
            draws |= {
                "cosine": np.cos(angle),
                "sine": np.sin(angle),
            }  # taken here, so that all devices rotate alike
        if self.crop:
            draws |= {
                "top": rng.integers(0, 2 * PAD + 1, n),
                "left": rng.integers(0, 2 * PAD + 1, n),
            }
        return draws

    def before(self, images: Tensor, draws: Draws) -> Tensor:
        """The steps on pixels in 0..1."""
        if self.crop and not self.crop_after:
            images = crop(images, draws["top"], draws["left"])
        if self.flip:
            images = flip(images, draws["flip"])
        if self.rotate:
            images = rotate(images, draws["cosine"], draws["sine"])
        return images

    def after(self, images: Tensor, draws: Draws) -> Tensor:
        """The steps on normalised inputs."""
        return crop(images, draws["top"], draws["left"]) if self.crop_after else images


def flip(images: Tensor, chosen: Tensor) -> Tensor:
    """Mirror the chosen images  [B, C, H, W]."""
    return torch.where(chosen.view(-1, 1, 1, 1), images.flip(-1), images)


def crop(images: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Cut an image of the original size out of the zero-padded one, at (top,
    left)  [B, C, H, W].
    """
    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device) + top.view(-1, 1) - PAD  # [B, H]
    columns = torch.arange(width, device=images.device) + left.view(-1, 1) - PAD  # [B, W]
    return _take(
        images, rows.unsqueeze(2).expand(-1, -1, width), columns.unsqueeze(1).expand(-1, height, -1)
    )


def rotate(images: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn images counter-clockwise about their centre; every pixel takes the nearest one of the
    original  [B, C, H, W].
    """
    height, width = images.shape[-2:]
    cosine, sine = cosine.double().view(-1, 1, 1), sine.double().view(-1, 1, 1)
    y = (
        torch.arange(height, device=images.device, dtype=torch.float64).view(1, -1, 1)
        + 0.5
        - height / 2
    )
    x = (
        torch.arange(width, device=images.device, dtype=torch.float64).view(1, 1, -1)
        + 0.5
        - width / 2
    )
    columns = (cosine * x - sine * y + width / 2).floor().long()  # [B, H, W]
    rows = (sine * x + cosine * y + height / 2).floor().long()
    return _take(images, rows, columns)


def _take(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """The pixels at (rows, columns), each [B, H, W], and zero outside of the image."""
    batch, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    source = (
        (rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1))
        .view(batch, 1, -1)
        .expand(-1, channels, -1)
    )
    return images.flatten(2).gather(2, source).view(images.shape) * inside.unsqueeze(1)


_REGISTRY: dict[str, Augmentation | None] = {
    "none": None,
    "flip": Augmentation("flip", flip=True),
    "crop": Augmentation("crop", crop=True),
    "crop-flip": Augmentation("crop-flip", crop=True, flip=True),  # FedSelect, Dis-PFL and PFedDST
    "flip-rotate-crop": Augmentation(
        "flip-rotate-crop", flip=True, rotate=True, crop=True, crop_after=True
    ),  # FedPURIN on CIFAR-100
}


def names() -> list[str]:
    """Names of all augmentations."""
    return list(_REGISTRY)


def get(name: str) -> Augmentation | None:
    """One augmentation by name; None for `none`."""
    if name not in _REGISTRY:
        raise DataError(f"unknown augmentation {name!r}: {nearest(name, _REGISTRY)}")
    return _REGISTRY[name]
