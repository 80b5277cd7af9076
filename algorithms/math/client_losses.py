"""How well models do on clients' samples, which decides who takes whose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.engine.batches import Batch
    from repfl.algorithms.engine.client import Client


def mean_losses(fed: Federation, models: Tensor, **samples: Any) -> Tensor:
    """Return the mean cross-entropy of models on the active clients' training samples, or on others
    as for `fed.for_each_batch`; in evaluation mode, zero without samples  [M, D] -> [M].
    """
    zeros = {name: models.new_zeros(len(models)) for name in ("total", "count")}
    sums = fed.for_each_batch(_add, {"params": models}, extras=zeros, **samples).extras
    return sums["total"] / sums["count"].clamp(min=1)


@torch.no_grad()
def _add(client: Client, batch: Batch) -> None:
    loss = F.cross_entropy(client.model(training=False)(batch.x), batch.y, reduction="sum")
    client.extras["total"] = client.extras["total"] + loss
    client.extras["count"] = client.extras["count"] + len(batch.y)
