"""Training augmentations of whole batches on a device.

Random parameters are drawn per sample on the CPU, from a generator that the caller keys by seed,
round, client and epoch. Protocols differ in what they do before and after normalisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    Draws = Mapping[str, Tensor]  # one entry per parameter, each [B]

PAD = 4
"""Pixels of zeros around an image before it is cropped."""
MAX_DEGREES = 15.0


@dataclass(frozen=True)
class Augmentation:
    """A named sequence of steps on float images [B, C, H, W]."""

    name: str
    flip: bool = False  # horizontal, p = 1/2
    rotate: bool = False  # uniform within +-15 degrees, nearest pixel, zeros outside
    crop: bool = False  # pad by 4 pixels, crop to the original size at random
    crop_after: bool = False  # crop after normalisation, so the border is the mean colour

    def draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draw the parameters of n samples."""
        draws: dict[str, np.ndarray] = {}
        if self.flip:
            draws["flip"] = rng.random(n) < 0.5
        if self.rotate:
            angle = np.deg2rad(rng.uniform(-MAX_DEGREES, MAX_DEGREES, n))
            # on the CPU, so that all devices rotate alike
            draws |= {"cosine": np.cos(angle), "sine": np.sin(angle)}
        if self.crop:
            draws |= {side: rng.integers(0, 2 * PAD + 1, n) for side in ("top", "left")}
        return draws

    def before(self, images: Tensor, draws: Draws) -> Tensor:
        """Apply the steps on raw pixels, before normalisation."""
        if self.crop and not self.crop_after:
            images = crop(images, draws["top"], draws["left"])
        if self.flip:
            images = flip(images, draws["flip"])
        if self.rotate:
            images = rotate(images, draws["cosine"], draws["sine"])
        return images

    def after(self, images: Tensor, draws: Draws) -> Tensor:
        """Apply the steps on normalised inputs."""
        return crop(images, draws["top"], draws["left"]) if self.crop_after else images


def flip(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror some of the images  [B, C, H, W]."""
    return images.flip(-1).where(mirrored.view(-1, 1, 1, 1), images)


def crop(images: Tensor, top: Tensor, left: Tensor) -> Tensor:
    """Crop zero-padded images to their original size at (top, left)  [B, C, H, W]."""
    import torch

    height, width = images.shape[-2:]
    rows = torch.arange(height, device=images.device) + top.view(-1, 1) - PAD  # [B, H]
    columns = torch.arange(width, device=images.device) + left.view(-1, 1) - PAD  # [B, W]
    return _gather(
        images, rows.unsqueeze(2).expand(-1, -1, width), columns.unsqueeze(1).expand(-1, height, -1)
    )


def rotate(images: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotate images counter-clockwise about their centre, by nearest pixel  [B, C, H, W]."""
    import torch

    def centred(size: int) -> Tensor:
        return torch.arange(size, device=images.device, dtype=torch.float64) + 0.5 - size / 2

    height, width = images.shape[-2:]
    cosine, sine = cosine.double().view(-1, 1, 1), sine.double().view(-1, 1, 1)
    y, x = centred(height).view(1, -1, 1), centred(width).view(1, 1, -1)
    columns = (cosine * x - sine * y + width / 2).floor().long()  # [B, H, W]
    rows = (sine * x + cosine * y + height / 2).floor().long()
    return _gather(images, rows, columns)


def _gather(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the pixels at (rows, columns), each [B, H, W]; zero outside of the image."""
    batch, channels, height, width = images.shape
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    index = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
    index = index.view(batch, 1, -1).expand(-1, channels, -1)
    return images.flatten(2).gather(2, index).view(images.shape) * inside.unsqueeze(1)


AUGMENTATIONS: dict[str, Augmentation | None] = {
    "none": None,
    "flip": Augmentation("flip", flip=True),
    "crop": Augmentation("crop", crop=True),
    # FedSelect, Dis-PFL and PFedDST
    "crop-flip": Augmentation("crop-flip", crop=True, flip=True),
    # FedPURIN on CIFAR-100
    "flip-rotate-crop": Augmentation(
        "flip-rotate-crop", flip=True, rotate=True, crop=True, crop_after=True
    ),
}
