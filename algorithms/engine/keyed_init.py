"""Layers with initial values from a keyed generator, and batch norm of a single value."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn


class KeyedModule(nn.Module):
    """A module whose initial values are drawn from a NumPy generator, not from PyTorch's global
    one: PyTorch's default distributions or, with `he_normal`, He's for convolutions.
    """

    he_normal = False

    @torch.no_grad()
    def draw(self, rng: np.random.Generator) -> None:
        """Draw the weights and biases of convolutions and linear layers, in the module's order."""
        for layer in self.modules():
            if not isinstance(layer, nn.Conv1d | nn.Conv2d | nn.Linear):
                continue
            shape = tuple(layer.weight.shape)
            if self.he_normal and isinstance(layer, nn.Conv2d):
                values = (2.0 / (shape[0] * shape[2] * shape[3])) ** 0.5 * rng.standard_normal(
                    shape
                )
            else:
                bound = float(np.prod(shape[1:])) ** -0.5
                values = rng.uniform(-bound, bound, shape)
            _copy(layer.weight, values)
            if layer.bias is not None:
                bound = float(np.prod(shape[1:])) ** -0.5
                _copy(layer.bias, rng.uniform(-bound, bound, shape[0]))


def _copy(parameter: Tensor, values: np.ndarray) -> None:
    parameter.copy_(torch.from_numpy(values.astype(np.float32)))


class BatchNorm2d(nn.BatchNorm2d):
    """Batch norm that a batch of one value per channel leaves alone: it has no variance."""

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] * x.shape[2] * x.shape[3] == 1:
            return self.bias[None, :, None, None] + 0 * x
        return super().forward(x)
