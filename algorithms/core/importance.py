"""Which of its entries a client keeps: scores made comparable, a quantile of them as the bar, and
the entries above the bar.
"""

from __future__ import annotations

from math import ceil
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.layout import Layout

Norm = Literal["none", "layer", "global"]
"""Scores as they are, or mapped to [0, 1] by their smallest and largest value: of each tensor, or
of all tensors together.
"""
Scope = Literal["global", "tensor"]
"""One bar for all tensors together, or one for each."""


def above_quantile(
    layout: Layout,
    scores: Tensor,
    q: float,
    within: Tensor,
    norm: Norm = "none",
    scope: Scope = "global",
) -> Tensor:
    """The entries inside whole tensors `within` [D] that score strictly above the q-quantile; ties
    at it are out  [K, D] bool.
    """
    values = normalised(layout, scores, within, norm)
    if scope == "global":
        return (values > quantile(values[:, _places(within)], q)) & within
    mask = torch.zeros(values.shape, dtype=torch.bool, device=values.device)
    for place in layout.tensors(within):
        mask[:, place] = values[:, place] > quantile(values[:, place], q)
    return mask


def normalised(layout: Layout, scores: Tensor, within: Tensor, norm: Norm) -> Tensor:
    """Scores inside `within` on a common scale, zeros elsewhere; scores that are all alike become
    zeros, so none stands out  [K, D].
    """
    if norm == "none":
        return torch.where(within, scores, 0.0)
    scaled = torch.zeros_like(scores)
    for place in layout.tensors(within) if norm == "layer" else [_places(within)]:
        part = scores[:, place]
        least, most = part.aminmax(dim=1, keepdim=True)
        span = most - least
        scaled[:, place] = torch.where(span > 0, (part - least) / span, 0.0)
    return scaled


def _places(within: Tensor) -> Tensor | slice:
    """The entries of a mask [D]; where these are all, no copy is made of what they are taken
    from.
    """
    return slice(None) if bool(within.all()) else within


def quantile(rows: Tensor, q: float) -> Tensor:
    """The q-quantile of every row with linear interpolation, for rows of any length and any version
    of PyTorch  [K, n] -> [K, 1].

    The rank is formed in the rows' own precision, as `torch.quantile` did when the papers ran it
    (later versions use double precision): it decides how many entries of a large model lie above
    the bar.
    """
    rank = torch.tensor(q, dtype=rows.dtype) * (rows.shape[1] - 1)
    below, above = int(rank), ceil(rank)
    low, high = _at_ranks(rows, below, above)
    return torch.lerp(low, high, (rank - below).to(rows.device))


def _at_ranks(rows: Tensor, *ranks: int) -> list[Tensor]:
    """What stands at two places, counted from zero, of every row in ascending order  [K, 1]
    each.
    """
    if rows.is_cuda:
        return [rows.kthvalue(rank + 1, dim=1, keepdim=True).values for rank in ranks]
    found = [np.partition(row, ranks)[list(ranks)] for row in rows.numpy()]  # both in one pass
    return list(torch.from_numpy(np.stack(found)).split(1, dim=1))
