"""The clients' data as the engine sees them: one pool of images on the device, and index lists into
it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

Kind = Literal["images", "features", "signals", "tokens"]
"""What a model is given: [B, C, H, W]; features as images of one pixel; [B, C, T]; ids [B, T]."""
_NORMALISED = WeakIdKeyDictionary()
"""From images to the scale that they were normalised by, and the normalised images."""
NORMALISED_CACHE_BYTES = {"cuda": 2 << 30, "cpu": 64 << 20}
"""Bytes that a device may spend on normalised images, so that no step has to normalise its own."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor of the host to a device, without waiting for a GPU."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def to_host(tensor: Tensor) -> Tensor:
    """Copy a tensor to the CPU: a GPU must be waited for. On the device `meta`: zeros."""
    return torch.zeros_like(tensor, device="cpu") if tensor.is_meta else tensor.cpu()


class Augmentation(Protocol):
    """Random image transforms: parameters are drawn on the CPU per client and epoch, then applied
    in batches anywhere.
    """

    def draw(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Parameters for n samples."""

    def before(self, images: Tensor, draws: dict[str, Tensor]) -> Tensor:
        """What happens to raw pixels  [B, C, H, W]."""

    def after(self, images: Tensor, draws: dict[str, Tensor]) -> Tensor:
        """What happens to normalised pixels  [B, C, H, W]."""


@dataclass(frozen=True)
class ClientData:
    """Everything the clients hold."""

    images: Tensor  # [n, H, W, C] uint8; signals have H = 1, and tokens H = W = 1
    labels: Tensor  # [n] int64
    train: Sequence[Tensor]  # N index lists, always on the CPU
    test: Sequence[Tensor]
    val: Sequence[Tensor]
    scale: Tensor  # [C]: x = pixel * scale + shift
    shift: Tensor  # [C]
    classes: int
    shape: tuple[int, int, int] | None = None  # (C, H, W) that images are repeated and padded to
    augment: Augmentation | None = None
    kind: Kind = "images"
    public: Tensor | None = None  # [P, H, W, C] like `images`: unlabelled, of no client
    ready: Tensor | None = field(default=None, init=False)
    """All images normalised  [n, H, W, C], where a device has room for them."""

    @property
    def clients(self) -> int:
        return len(self.train)

    @property
    def class_counts(self) -> Tensor:
        """Training samples of every client and class  [N, classes]."""
        sizes = torch.tensor([len(part) for part in self.train])
        owner = to_device(torch.arange(self.clients).repeat_interleave(sizes), self.labels.device)
        label = self.labels[to_device(torch.cat(list(self.train)), self.labels.device)]
        counts = torch.zeros(self.clients * self.classes, dtype=torch.int64, device=label.device)
        place = owner * self.classes + label
        return counts.index_add(0, place, torch.ones_like(place)).view(self.clients, self.classes)

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """(channels, height, width) of what a model sees."""
        height, width, channels = self.images.shape[1:]
        return self.shape or (channels, height, width)

    @cached_property
    def by_pixel(self) -> tuple[Tensor, Tensor]:
        """Scale and shift of every value of an image [H, W, C]: a CPU adds whole rows faster than
        it broadcasts three channels.
        """
        shape = self.images.shape[1:]
        return self.scale.expand(shape).contiguous(), self.shift.expand(shape).contiguous()

    @cached_property
    def public_inputs(self) -> Tensor:
        """The public samples, normalised."""
        if self.public is None:
            raise ValueError(
                "the recipe has no public samples: public = { samples = 500 } holds some out"
            )
        pool = replace(self, images=self.public, public=None, augment=None)
        return pool.inputs(torch.arange(len(self.public), device=self.public.device))

    def to(self, device: torch.device, dtype: torch.dtype) -> ClientData:
        """The same data on a device; nothing is copied when they are there already."""
        fields: dict[str, Any] = {
            name: getattr(self, name).to(device) for name in ("images", "labels")
        }
        fields |= {
            name: [part.cpu() for part in getattr(self, name)] for name in ("train", "test", "val")
        }  # orders are drawn there
        fields |= {name: getattr(self, name).to(device, dtype) for name in ("scale", "shift")}
        fields |= {name: getattr(self, name) for name in ("classes", "shape", "augment", "kind")}
        fields["public"] = None if self.public is None else self.public.to(device)
        there = ClientData(**fields)
        if self.augment is None and self.kind != "tokens":
            object.__setattr__(there, "ready", there._normalised())
        _ = there.by_pixel  # before any step is recorded
        return there

    def _normalised(self) -> Tensor | None:
        """All images normalised, once for all federations on the same images."""
        room = NORMALISED_CACHE_BYTES.get(self.images.device.type, 0)
        if self.images.numel() * self.scale.element_size() > room:
            return None
        scale, ready = _NORMALISED.get(self.images, (None, None))
        if scale is not self.scale:
            ready = self.images.to(self.scale.dtype) * self.scale + self.shift
            _NORMALISED[self.images] = self.scale, ready
        return ready

    def inputs(self, index: Tensor, draws: dict[str, Tensor] | None = None) -> Tensor:
        """Normalised images of an index list of any shape  [..., C, H, W], channels-last in
        memory; signals [..., C, T], and tokens as they are [..., T].
        """
        if self.kind == "tokens":
            return self.images.index_select(0, index.flatten()).unflatten(0, index.shape)[
                ..., 0, 0, :
            ]
        of, (scale, shift) = index.flatten(), self.by_pixel
        if self.ready is not None:
            x = self.ready.index_select(0, of).permute(0, 3, 1, 2)
        else:
            pixels = self.images.index_select(0, of).to(scale.dtype)  # [M, H, W, C]
            if draws is None or self.augment is None:
                x = pixels.mul_(scale).add_(shift).permute(0, 3, 1, 2)
            else:
                x = self.augment.before(pixels.permute(0, 3, 1, 2), draws)
                x = x * scale.permute(2, 0, 1) + shift.permute(2, 0, 1)
                x = self.augment.after(x, draws)
        if self.shape not in (None, x.shape[1:]):
            x = _fit(x, self.shape)
        if self.kind == "signals":
            x = x.squeeze(-2)
        return x.unflatten(0, index.shape)


def _fit(x: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """Repeat channels and pad height and width with zeros up to a shape."""
    channels, height, width = shape
    x = x.repeat(1, -(-channels // x.shape[1]), 1, 1)[:, :channels]
    return F.pad(x, (0, width - x.shape[3], 0, height - x.shape[2]))
