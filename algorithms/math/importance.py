"""Importance of entries: scores on a common scale, and the entries above a quantile of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.engine.params import Slice

Norm = Literal["none", "layer", "global"]
"""Scores as they are, or min-max scaled: each tensor by itself, or all tensors together."""
Scope = Literal["global", "tensor"]
"""One threshold for all tensors together, or one for each."""


def above_quantile(
    scores: Tensor, q: float, tensors: Sequence[Slice], norm: Norm = "none", scope: Scope = "global"
) -> Tensor:
    """Return the mask of the entries of the given tensors whose score is strictly above the
    q-quantile; entries of other tensors are out  [K, D] -> [K, D] bool.
    """
    sizes = [s.size for s in tensors]
    rows = torch.cat([scores[:, s.place] for s in tensors], dim=1)  # [K, n]
    if norm == "global":
        rows = min_max(rows)
    parts = rows.split(sizes, dim=1)
    if norm == "layer":
        parts = tuple(min_max(part) for part in parts)
        rows = torch.cat(parts, dim=1)
    overall = quantile(rows, q) if scope == "global" else None
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for s, part in zip(tensors, parts, strict=True):
        mask[:, s.place] = part > (quantile(part, q) if overall is None else overall)
    return mask


def min_max(rows: Tensor) -> Tensor:
    """Return every row scaled to [0, 1]; zeros for a row of equal values  [K, n]."""
    least, most = rows.aminmax(dim=1, keepdim=True)
    span = most - least
    return torch.where(span > 0, (rows - least) / span, 0.0)


def quantile(rows: Tensor, q: float) -> Tensor:
    """Return the linearly interpolated q-quantile of every row, of any length  [K, n] -> [K, 1].

    The rank is computed in the rows' own precision, as `torch.quantile` did when the papers ran it
    (later versions use double precision): it decides how many entries of a large model lie above.
    """
    size = rows.shape[1]
    rank = torch.tensor(q, dtype=rows.dtype) * (size - 1)  # on the CPU
    below, above = int(rank), ceil(rank)
    largest = below >= size // 2  # select from the nearer end
    count = size - below if largest else above + 1
    ordered = rows.topk(count, dim=1, largest=largest).values
    places = [size - 1 - at if largest else at for at in (below, above)]
    low, high = (ordered[:, place : place + 1] for place in places)
    return torch.lerp(low, high, float(rank - below))
