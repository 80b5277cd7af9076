"""The diagonal of the empirical Fisher information: how much an entry moves the likelihood."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, cross_entropy
from repfl.algorithms.engine.params import Tensors

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation

Reading = Literal["samples", "mean"]
"""Mean over samples of squared gradients, or square of the mean gradient."""
MAX_ENTRIES = 1 << 25
"""Entries that the gradients of single samples may have, of all clients of a stack together."""


def fisher(fed: Federation, models: Tensor, reading: Reading = "samples") -> Tensor:
    """Return the mean over a client's training samples of (d log p(y | x) / d w)^2, or the square
    of the mean of d log p(y | x) / d w; in evaluation mode, zero without samples  [K, D].
    """

    def step(client: Client, batch: Batch) -> None:
        def loss(trained: Tensors, x: Tensor, y: Tensor) -> Tensor:
            model = client.model(training=False).replace(trained)
            return cross_entropy(model, Batch(x[None], y[None]), {})  # -log p(y | x)

        trained = {name: client.tensors()[name] for name in client.masks}
        grads = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trained, batch.x, batch.y)
        terms = {n: g.square() if reading == "samples" else g for n, g in grads.items()}
        summed = fed.params.flatten({name: term.sum(0) for name, term in terms.items()})
        client.extras["sum"] = client.extras["sum"] + summed

    samples = max(1, min(128, MAX_ENTRIES // (fed.D * fed.stack)))
    zeros = {"sum": torch.zeros_like(models)}
    total = fed.for_each_batch(step, {"params": models}, extras=zeros, batch=samples).extras["sum"]
    mean = total / fed.n_train.clamp(min=1)[:, None]
    return mean if reading == "samples" else mean.square()
