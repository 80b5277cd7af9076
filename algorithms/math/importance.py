"""Which of its entries a client keeps: scores made comparable, a quantile of them as the bar, and
the entries above the bar.
"""

from __future__ import annotations

from itertools import pairwise
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
        return (values > quantile(_inside(layout, values, within), q)) & within
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
    for place in layout.tensors(within) if norm == "layer" else [_span(layout, within)]:
        part = scores[:, place]
        least, most = part.aminmax(dim=1, keepdim=True)
        span = most - least
        scaled[:, place] = torch.where(span > 0, (part - least) / span, 0.0)
    return scaled


def _span(layout: Layout, within: Tensor) -> Tensor | slice:
    """The entries of a mask of whole tensors [D], without a copy of what they are taken from where
    they lie side by side.
    """
    tensors = list(layout.tensors(within))
    start, stop = (tensors[0].start, tensors[-1].stop) if tensors else (0, 0)
    gaps = any(one.stop != other.start for one, other in pairwise(tensors))
    return within if gaps else slice(start, stop)


def _inside(layout: Layout, values: Tensor, within: Tensor) -> Tensor:
    """The entries of a mask of whole tensors, tensor after tensor  [K, n]."""
    span = _span(layout, within)
    if isinstance(span, slice):
        return values[:, span]
    return torch.cat([values[:, place] for place in layout.tensors(within)], dim=1)


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
    return torch.lerp(low, high, float(rank - below))


def _at_ranks(rows: Tensor, *ranks: int) -> list[Tensor]:
    """What stands at two places, counted from zero, of every row in ascending order  [K, 1]
    each.
    """
    if rows.is_cuda:
        return _from_an_end(rows, *ranks)
    found = [np.partition(row, ranks)[list(ranks)] for row in rows.numpy()]  # both in one pass
    return list(torch.from_numpy(np.stack(found)).split(1, dim=1))


def _from_an_end(rows: Tensor, *ranks: int) -> list[Tensor]:
    """`_at_ranks` on a GPU, where the k-th value takes one block of threads per row: one selection
    from whichever end is nearer has both.
    """
    size = rows.shape[1]
    from_top = min(ranks) >= size // 2
    count = size - min(ranks) if from_top else max(ranks) + 1
    found = rows.topk(count, dim=1, largest=from_top).values  # sorted from that end
    places = [size - 1 - rank if from_top else rank for rank in ranks]
    return [found[:, place : place + 1] for place in places]
