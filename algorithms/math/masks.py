"""Masks over single entries: who holds an entry, its mean over its holders, quantiles among some
entries.
"""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation


def holders_mean(x: Tensor, held: Tensor, weights: Tensor, otherwise: Tensor) -> Tensor:
    """Weighted mean of every entry over the rows of x [K, D] that hold it [K, D]; entries without a
    holder come from elsewhere  [D].
    """
    total = weights @ held.to(x.dtype)
    summed = weights @ torch.where(held, x, 0.0)
    return torch.where(total > 0, summed / torch.where(total > 0, total, 1.0), otherwise)


def quantile(values: Tensor, among: Tensor, share: Tensor | float) -> Tensor:
    """Linearly interpolated quantile of each row's entries that count ([K, n] bool); infinite for a
    row without any  [K, n] -> [K, 1].
    """
    ordered = torch.where(among, values, float("inf")).sort(dim=1).values
    count = among.sum(1, keepdim=True)
    place = (count - 1).clamp(min=0) * torch.as_tensor(
        share, dtype=torch.float64, device=values.device
    )  # [K, 1]
    low = place.floor().long()
    below, above = (
        ordered.gather(1, low),
        ordered.gather(1, (low + 1).minimum((count - 1).clamp(min=0))),
    )
    return torch.where(
        count > 0,
        below + (above - below).nan_to_num() * (place - low).to(values.dtype),
        float("inf"),
    )


def weight_tensors(fed: Federation) -> Tensor:
    """Weights of convolutions and linear layers: no biases, no normalisation  [D] bool."""
    return fed.layout.where(kind="conv") | fed.layout.where(kind="linear")


def note_shares(fed: Federation, name: str, mask: Tensor) -> None:
    """Note the share of each weight tensor that a mask [K, D] holds, on average over clients: what
    a count of operations needs.
    """
    shares = mask.to(torch.float32).mean(0)
    for s in fed.layout:
        if s.kind in ("conv", "linear"):
            fed.note(f"{name}/{s.name}", shares[s.start : s.stop].mean())
