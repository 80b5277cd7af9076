"""Class statistics of features: counts, means (prototypes) and second moments of what the head
sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk
from repfl.algorithms.core.federation import Federation


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
        """Prototypes; zero where a class is absent  [K, classes, F]."""
        return self.total / self.count.clamp(min=1)[:, :, None]

    @property
    def shares(self) -> Tensor:
        """Class frequencies of each client; zero for a client without samples  [K, classes]."""
        return self.count / self.count.sum(1, keepdim=True).clamp(min=1)


def class_statistics(fed: Federation, models: Tensor) -> ClassStatistics:
    """One pass of each active client's model [K, D] over its own training samples, in evaluation
    mode.
    """
    sizes = {
        "count": (fed.classes,),
        "total": (fed.classes, fed.layout.head_weight.shape[1]),
        "square": (fed.classes,),
    }
    zeros = {
        name: torch.zeros(fed.K, *size, dtype=fed.dtype, device=fed.device)
        for name, size in sizes.items()
    }
    return ClassStatistics(**fed.visit(_gather, {"w": models}, extras=zeros).extras)


@torch.no_grad()
def _gather(local: Chunk, batch: Batch) -> None:
    features = local.model.features(local.models["w"], batch.x, batch.still)  # [K, B, F]
    classes = local.extras["count"].shape[1]
    member = F.one_hot(batch.y, classes).to(features.dtype)  # [K, B, classes]
    if batch.valid is not None:
        member = member * batch.valid[:, :, None]
    added = {
        "count": member.sum(1),
        "total": member.transpose(1, 2) @ features,
        "square": (member * features.square().sum(2, keepdim=True)).sum(1),
    }
    local.extras |= {name: local.extras[name] + value for name, value in added.items()}
