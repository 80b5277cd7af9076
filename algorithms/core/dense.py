"""Large linear layers by oneDNN, which computes PyTorch's convolutions: a matter of processors.

PyTorch gives matrix products to the library that it was built with; on some processors that one
leaves half of their vector width idle. The sums are those of `F.linear`, added up in another order.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

LARGE = 1 << 18
"""Entries of a weight, and"""
MANY = 1 << 22
"""multiplications, from which on this was measured to be quicker."""


def pay(x: Tensor, weight: Tensor) -> bool:
    """Whether oneDNN is quicker: x [B, I], weight [O, I]."""
    if weight.numel() < LARGE or len(x) * weight.numel() < MANY:
        return False
    return plain(x)


def plain(x: Tensor) -> bool:
    """Whether layers of an input go by oneDNN in single precision."""
    single = x.device.type == "cpu" and x.dtype == torch.float32
    return single and torch.backends.mkldnn.is_available() and not torch.is_autocast_enabled("cpu")


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x [B, I], weight [O, I] -> [B, O]."""
    out: Tensor = _Linear.apply(x, weight, bias)
    return out


class _Linear(torch.autograd.Function):
    """Without a `setup_context`, for which PyTorch reads the signature anew at every call."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        again = torch.is_grad_enabled()  # somebody wants to differentiate the gradient
        multiply = F.linear if again else product
        return (
            multiply(grad, weight.t()) if of_x else None,
            multiply(grad.t(), x.t()) if of_weight else None,
            grad.sum(0) if of_bias else None,
        )


def product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:
    """left [B, I], right [O, I] -> [B, O]."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
    return out
