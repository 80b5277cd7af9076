"""Class statistics of features, which are what the head sees: counts, means (prototypes) and second
moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from repfl.algorithms.math.gaussian import one_hot

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.engine.batches import Batch
    from repfl.algorithms.engine.client import Client


@dataclass(frozen=True)
class ClassStatistics:
    """Sums over the training samples of each client and class."""

    count: Tensor  # [K, classes]
    total: Tensor  # [K, classes, F], sum of features
    square: Tensor  # [K, classes], sum of squared feature norms

    @property
    def present(self) -> Tensor:
        """Which classes a client has samples of  [K, classes] bool."""
        return self.count > 0

    @property
    def means(self) -> Tensor:
        """Prototypes; zero for an absent class  [K, classes, F]."""
        return self.total / self.count.clamp(min=1)[:, :, None]

    @property
    def shares(self) -> Tensor:
        """Class frequencies of each client; zero for a client without samples  [K, classes]."""
        return self.count / self.count.sum(1, keepdim=True).clamp(min=1)


def class_statistics(fed: Federation, params: Tensor) -> ClassStatistics:
    """Run each active client's model [K, D] over its own training samples, in evaluation mode."""
    classes, width = fed.params.head_weight.shape
    sizes = {"count": (classes,), "total": (classes, width), "square": (classes,)}
    zeros = {
        name: torch.zeros(fed.K, *size, dtype=fed.dtype, device=fed.device)
        for name, size in sizes.items()
    }
    return ClassStatistics(**fed.for_each_batch(_gather, {"params": params}, extras=zeros).extras)


@torch.no_grad()
def _gather(client: Client, batch: Batch) -> None:
    features = client.model(training=False).features(batch.x)  # [B, F]
    extras = client.extras
    member = one_hot(batch.y, len(extras["count"]), features.dtype)  # [B, classes]
    client.extras.update(
        count=extras["count"] + member.sum(0),
        total=extras["total"] + member.T @ features,
        square=extras["square"] + (member * features.square().sum(1, keepdim=True)).sum(0),
    )
