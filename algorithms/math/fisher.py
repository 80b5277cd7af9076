"""The diagonal of the empirical Fisher information: how strongly each entry moves the likelihood of
single samples.

A layer's input and the gradient of its output are all that the sum of squared gradients over
samples needs: for linear layers the gradients of single samples are never formed, for convolutions
only one layer at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params, Tensors
from repfl.algorithms.core.ops import convolution

BUDGET = 1 << 25
"""How many entries the gradients of one convolution may have, of all samples of a batch together.
"""

Sums = Callable[[Tensor], tuple[Tensor, Tensor]]
"""From the gradient of a layer's output: sums over samples of the squared gradients of its weight
and bias.
"""


def fisher(fed: Federation, models: Tensor) -> Tensor:
    """Mean over a client's training samples of (d log p(y | x) / d w)^2, in evaluation mode; zero
    without samples  [K, D].
    """
    largest = max((s.size for s in fed.layout if s.kind == "conv"), default=1)
    gathered = fed.visit(
        _add,
        {"w": models},
        extras={"fisher": torch.zeros_like(models)},
        batch=max(1, min(128, BUDGET // largest)),
    )
    return gathered.extras["fisher"] / fed.n_train.clamp(min=1)[:, None]


def _add(local: Chunk, batch: Batch) -> None:
    """Add a batch's squares, client by client: each has a model of its own."""
    if not local.model.stacked:
        _add_singly(local, batch)
        return
    sums = []
    for k in range(local.clients):
        params = {name: value[k : k + 1].clone() for name, value in local.models["w"].items()}
        leaves = [params[name].requires_grad_() for name in local.masks]
        with convolution("auto"), Layers(params) as layers:  # those that PyTorch itself computes
            chances = local.model.logits(params, batch.x[k : k + 1], batch.still).log_softmax(
                2
            )  # [1, B, classes]
        chosen = chances.gather(2, batch.y[k : k + 1, :, None]).flatten()
        torch.autograd.grad(
            (chosen if batch.valid is None else chosen * batch.valid[k]).sum(),
            leaves,
            allow_unused=True,
        )
        sums.append(
            local.layout.spread(
                {name: value.unsqueeze(0) for name, value in layers.squares.items()}
            )
        )
    local.extras["fisher"] = local.extras["fisher"] + torch.cat(sums)


def _add_singly(local: Chunk, batch: Batch) -> None:
    """Add a batch's squares sample by sample, for models whose layers may be anything."""
    rows = local.extras["fisher"].clone()
    for k in range(local.clients):
        params = {name: value[k : k + 1].clone() for name, value in local.models["w"].items()}
        leaves = {name: params[name].requires_grad_() for name in local.masks}
        for b in range(batch.y.shape[1]):
            if batch.valid is not None and not batch.valid[k, b]:
                continue
            chances = local.model.logits(params, batch.x[k : k + 1, b : b + 1], batch.still)
            chosen = chances.log_softmax(2)[0, 0, batch.y[k, b]]
            found = torch.autograd.grad(chosen, list(leaves.values()), allow_unused=True)
            squares = {
                name: value.square()
                for name, value in zip(leaves, found, strict=True)
                if value is not None
            }
            rows[k : k + 1] += local.layout.spread(squares)
    local.extras["fisher"] = rows


class Layers(TorchFunctionMode):
    """Watches the layers of one client's forward pass; the backward pass then leaves `squares`
    behind, by name.
    """

    def __init__(self, params: Params) -> None:
        super().__init__()
        self.names = {value.data_ptr(): name for name, value in params.items()}
        self.squares: Tensors = {}

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in RULES:
            weight, bias, sums = RULES[func](*args, **(kwargs or {}))
            out.register_hook(
                lambda grad: self._keep(weight, bias, sums(grad.to(weight.dtype)))
            )  # halved by some precisions
        return out

    def _keep(self, weight: Tensor, bias: Tensor | None, sums: tuple[Tensor, Tensor]) -> None:
        for parameter, value in zip((weight, bias), sums, strict=True):
            if parameter is not None:
                self.squares[self.names[parameter.data_ptr()]] = value


# -- layers: who their parameters are, and the sums of squares -------------------------------------


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Sums]:
    return (
        weight,
        bias,
        lambda g: (g.square().T @ x.detach().to(g.dtype).square(), g.square().sum(0)),
    )


def _conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None, stride: int, padding: int
) -> tuple[Tensor, Tensor | None, Sums]:
    def sums(g: Tensor) -> tuple[Tensor, Tensor]:
        patches = F.unfold(
            x.detach().to(g.dtype), weight.shape[2:], padding=padding, stride=stride
        )  # [B, C*h*w, L]
        each = g.flatten(2) @ patches.transpose(1, 2)  # [B, O, C*h*w]
        return each.square().sum(0).view(weight.shape), g.sum((2, 3)).square().sum(0)

    return weight, bias, sums


def _batch_norm(
    x: Tensor,
    mean: Tensor,
    var: Tensor,
    weight: Tensor,
    bias: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Sums]:
    plain = F.batch_norm(x.detach(), mean, var, None, None, training, momentum, eps)
    return (
        weight,
        bias,
        lambda g: ((g * plain).sum((2, 3)).square().sum(0), g.sum((2, 3)).square().sum(0)),
    )


def _group_norm(
    x: Tensor, groups: int, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Sums]:
    plain = F.group_norm(x.detach(), groups, eps=eps)
    return (
        weight,
        bias,
        lambda g: ((g * plain).sum((2, 3)).square().sum(0), g.sum((2, 3)).square().sum(0)),
    )


RULES: dict[Any, Callable[..., tuple[Tensor, Tensor | None, Sums]]] = {
    F.linear: _linear,
    F.conv2d: _conv2d,
    F.batch_norm: _batch_norm,
    F.group_norm: _group_norm,
}
