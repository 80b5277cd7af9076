"""Deliberately plain local training, for transcriptions of update rules: one client, one vector,
ordinary PyTorch functions.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.batches import Schedule, plan_batches

Loss = Callable[[dict[str, Tensor], Tensor, Tensor], Tensor]


def named(fed: Federation, flat: Tensor) -> dict[str, Tensor]:
    """The named tensors of one flat vector [D]."""
    return {s.name: flat[s.start : s.stop].view(s.shape) for s in fed.params}


def batch_norm(p: dict[str, Tensor], layer: str, x: Tensor, train: bool = False) -> Tensor:
    """One normalisation layer of `tiny-bn`."""
    parts = ("running_mean", "running_var", "weight", "bias")
    return F.batch_norm(x, *(p[f"{layer}.{part}"] for part in parts), train)


def features(p: dict[str, Tensor], x: Tensor, *, train: bool = True) -> Tensor:
    """What the head of `tiny` or `tiny-bn` sees; batch norm moves the statistics in p in place when
    it trains.
    """
    if "conv2.weight" in p:
        x = F.conv2d(x, p["conv1.weight"], padding=1)
        x = F.max_pool2d(F.relu(batch_norm(p, "bn1", x, train)), 2)
        x = F.conv2d(x, p["conv2.weight"], padding=1)
        x = F.relu(batch_norm(p, "bn2", x, train))
    else:
        x = F.max_pool2d(F.relu(F.conv2d(x, p["conv1.weight"], p["conv1.bias"])), 2)
    return F.relu(F.linear(x.flatten(1), p["fc1.weight"], p["fc1.bias"]))


def logits(p: dict[str, Tensor], x: Tensor, *, train: bool = True) -> Tensor:
    """`tiny` or `tiny-bn` for one client."""
    return F.linear(features(p, x, train=train), p["fc2.weight"], p["fc2.bias"])


def cross_entropy(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """The ordinary loss."""
    return F.cross_entropy(logits(p, x), y)


def still(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    """Cross-entropy with statistics at rest."""
    return F.cross_entropy(logits(p, x, train=False), y)


def batches(
    fed: Federation,
    client: int,
    round_: int,
    epochs: int,
    *,
    first: int = 0,
    stream: str = "batches",
) -> list[tuple[Tensor, Tensor]]:
    """The images and labels of a client's mini-batches in a round."""
    schedule = Schedule(stream, round_, epochs, first, fed.protocol.batch, fed.protocol.skip_single)
    return [
        (fed.data.inputs(i), fed.data.labels[i])
        for i in plan_batches(fed.data, fed.streams, client, schedule).index
    ]


def gradient(
    fed: Federation, flat: Tensor, x: Tensor, y: Tensor, loss: Loss = cross_entropy
) -> Tensor:
    """Gradient [D] of a loss at a flat vector; running statistics in `flat` move as a training step
    moves them.
    """
    leaf = flat.clone().requires_grad_()
    p = named(fed, leaf)
    stats = {s.name: flat[s.start : s.stop].view(s.shape) for s in fed.params if s.kind == "stat"}
    (g,) = torch.autograd.grad(loss(p | stats, x, y), leaf)
    return g


def sample_gradients(fed: Federation, flat: Tensor, client: int) -> Tensor:
    """Every training sample's gradient of the log-likelihood, at rest  [n, D]."""
    rows = []
    for j in fed.data.train[client]:
        tensors = fed.params.unflatten(flat)
        leaves = {s.name: tensors[s.name].requires_grad_() for s in fed.params.trained}
        logits = fed.model.bind(tensors)(fed.data.inputs(j[None]))
        likelihood = logits.log_softmax(1)[0, fed.data.labels[j]]
        grads = torch.autograd.grad(likelihood, list(leaves.values()))
        rows.append(fed.params.flatten(dict(zip(leaves, grads, strict=True))))
    return torch.stack(rows)


def train(
    fed: Federation,
    flat: Tensor,
    client: int,
    round_: int,
    *,
    epochs: int | None = None,
    lr: float | None = None,
    trainable: Tensor | None = None,
    loss: Loss = cross_entropy,
    plus: Callable[[Tensor], Tensor] | None = None,
    first: int = 0,
    stream: str = "batches",
) -> tuple[Tensor, Tensor]:
    """Plain SGD epochs of one client, with the protocol's momentum and weight decay: the new vector
    and the gradient of the last batch. `plus` is added to the gradient at a vector.
    """
    flat, last, buffer = flat.clone(), torch.zeros_like(flat), torch.zeros_like(flat)
    moves = fed.params.learnable if trainable is None else trainable & fed.params.learnable
    count = fed.protocol.epochs if epochs is None else epochs
    for x, y in batches(fed, client, round_, count, first=first, stream=stream):
        last = gradient(fed, flat, x, y, loss)
        last = last if plus is None else last + plus(flat)
        buffer = fed.protocol.momentum * buffer + last + fed.protocol.weight_decay * flat
        flat[moves] -= (fed.protocol.lr if lr is None else lr) * buffer[moves]
    return flat, last


def pulled(anchor: Tensor, strength: float) -> Callable[[Tensor], Tensor]:
    """The gradient of strength / 2 |w - anchor|^2."""
    return lambda flat: strength * (flat - anchor)


def weights(fed: Federation, clients: list[int]) -> Tensor:
    """Shares of the training samples."""
    sizes = torch.tensor([len(fed.data.train[c]) for c in clients], dtype=torch.float64)
    return sizes / sizes.sum()


def apart(one: Tensor, other: Tensor) -> float:
    """Largest difference relative to the largest entry."""
    return ((one - other).abs().max() / one.abs().max()).item()
