"""Masks over single entries: largest scores, quantiles among some entries, means over holders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from repfl.algorithms.engine.params import count_true

if TYPE_CHECKING:
    from repfl.algorithms.core.federation import Federation


def topk_threshold(scores: Tensor, count: int) -> Tensor:
    """Return the count-th largest score of every row; infinite for a count of zero
    [K, n] -> [K, 1].
    """
    if count == 0:
        return scores.new_full((scores.shape[0], 1), float("inf"))
    if scores.is_cuda:  # `kthvalue` takes one block of threads per row
        return scores.topk(count, dim=1, sorted=False).values.amin(1, keepdim=True)
    return scores.kthvalue(scores.shape[1] - count + 1, dim=1, keepdim=True).values


def topk_mask(scores: Tensor, counts: Tensor) -> Tensor:
    """Return the mask of the `counts` [K] largest scores of every row, of equal ones the earlier
    [K, n] -> [K, n] bool.
    """
    if not scores.is_cpu:
        order = scores.argsort(dim=1, descending=True, stable=True)
        first = torch.arange(scores.shape[1], device=scores.device) < counts[:, None]
        return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, first)
    size = scores.shape[1]  # in linear time: the last score that is in, then those equal to it
    ranks = (size + 1 - counts).clamp(1, size).tolist()
    rows = [row.kthvalue(rank).values for row, rank in zip(scores, ranks, strict=True)]
    threshold = torch.stack(rows)[:, None]
    above, equal = scores > threshold, scores == threshold
    missing = counts[:, None] - count_true(above)[:, None]
    return above | (equal & (equal.cumsum(1, dtype=torch.int32) <= missing))


def holders_mean(x: Tensor, held: Tensor, weights: Tensor, otherwise: Tensor) -> Tensor:
    """Return the weighted mean of every entry over the rows of x [K, D] that hold it [K, D]; the
    value of `otherwise` for entries without a holder  [D].
    """
    total = weights @ held.to(x.dtype)
    summed = weights @ torch.where(held, x, 0.0)
    return torch.where(total > 0, summed / torch.where(total > 0, total, 1.0), otherwise)


def masked_quantile(values: Tensor, among: Tensor, share: Tensor | float) -> Tensor:
    """Return the linearly interpolated quantile of each row's entries in the mask `among`; infinite
    for a row without any  [K, n] -> [K, 1].
    """
    ordered = torch.where(among, values, float("inf")).sort(dim=1).values
    count = among.sum(1, keepdim=True)
    last = (count - 1).clamp(min=0)
    share = torch.as_tensor(share, dtype=torch.float64, device=values.device)
    rank = last * share  # [K, 1]
    low = rank.floor().long()
    below, above = ordered.gather(1, low), ordered.gather(1, (low + 1).minimum(last))
    between = below + (above - below).nan_to_num() * (rank - low).to(values.dtype)
    return torch.where(count > 0, between, float("inf"))


def log_shares(fed: Federation, name: str, mask: Tensor) -> None:
    """Log the share of each weight tensor that a mask [K, D] holds, on average over clients: a
    count of operations needs it.
    """
    shares = mask.to(torch.float32).mean(0)
    for s in fed.params.weights:
        fed.log(f"{name}/{s.name}", shares[s.place].mean())
