"""Features of training samples, one by one: what the head sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from repfl.algorithms.engine.training import Trained

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation
    from repfl.algorithms.engine.batches import Batch
    from repfl.algorithms.engine.client import Client


def training_features(fed: Federation, params: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features of the active clients' training samples under their models [K, D], in
    evaluation mode, and the labels  [K, n, F], [K, n], as `padded` has them.
    """
    return padded(fed, fed.for_each_batch(_collect, {"params": params}))


def padded(fed: Federation, collected: Trained) -> tuple[Tensor, Tensor]:
    """Return what clients collected as `features` [K, n, F] and `labels` [K, n], which are -1 for
    padding.
    """
    if not collected.collected:  # no active client has samples
        none = torch.zeros(fed.K, 0, fed.params.head_weight.shape[1], dtype=fed.dtype)
        return none.to(fed.device), torch.zeros(fed.K, 0, dtype=torch.int64, device=fed.device)
    features, labels = (collected.collected[name] for name in ("features", "labels"))
    return pad_sequence(features, True), pad_sequence(labels, True, padding_value=-1)


@torch.no_grad()
def _collect(client: Client, batch: Batch) -> None:
    client.collect("features", client.model(training=False).features(batch.x))
    client.collect("labels", batch.y)
