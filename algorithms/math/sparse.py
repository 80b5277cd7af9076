"""Sparse models: how many entries of each tensor are non-zero, and random masks with that many."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.engine.params import Params, row_slices
from repfl.algorithms.engine.rng import splitmix64
from repfl.algorithms.math.masks import topk_mask


def erk_counts(params: Params, density: float) -> dict[str, int]:
    """Return the number of non-zeros of every trained tensor under the ERK rule: its density is
    proportional to the sum over the product of its dimensions (Evci et al., RigL, ICML 2020).

    A tensor that would exceed a density of one is kept whole, and the others share what is left.
    """
    ratio = {s.name: sum(s.shape) / s.size for s in params.trained}
    budget = density * sum(s.size for s in params.trained)
    dense: set[str] = set()
    while rest := [s for s in params.trained if s.name not in dense]:
        left = budget - sum(params[name].size for name in dense)
        scale = left / sum(ratio[s.name] * s.size for s in rest)
        largest = max(ratio[s.name] for s in rest)
        if largest * scale <= 1:
            break
        dense |= {s.name for s in rest if ratio[s.name] == largest}
    return {
        s.name: s.size if s.name in dense else int(max(0.0, scale * ratio[s.name]) * s.size)
        for s in params.trained
    }


def random_masks(params: Params, counts: dict[str, int], keys: Tensor) -> Tensor:
    """Return a mask for each key [K], with `counts` random entries in each tensor and all running
    statistics  [K, D] bool.
    """
    mask = torch.ones(len(keys), params.size, dtype=torch.bool, device=params.device)
    for rows in row_slices(len(keys)):
        key = keys[rows]
        for name, count in counts.items():
            s = params[name]
            if count < s.size:
                scores = splitmix64(key, s.start, s.size)
                mask[rows, s.place] = topk_mask(scores, torch.full_like(key, count))
    return mask
