"""Sparse models: how dense each tensor is, and random masks of that density."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.layout import Layout, blocks, largest
from repfl.algorithms.core.rng import lots


def erk(layout: Layout, density: float) -> dict[str, int]:
    """Non-zeros of every learnable tensor under the ERK rule: density proportional to the sum over
    the product of the dimensions.

    A tensor that would be denser than dense is kept whole, and the scale is found again for the
    others (Evci et al., RigL, ICML 2020).
    """
    tensors = [s for s in layout if s.kind != "stat"]
    raw = {s.name: sum(s.shape) / s.size for s in tensors}
    whole: set[str] = set()
    while True:
        rest = [s for s in tensors if s.name not in whole]
        if not rest:
            return {s.name: s.size for s in tensors}
        budget = density * sum(s.size for s in tensors) - sum(
            s.size for s in tensors if s.name in whole
        )
        scale = budget / sum(raw[s.name] * s.size for s in rest)
        most = max(raw[s.name] for s in rest)
        if most * scale <= 1:
            return {
                s.name: s.size if s.name in whole else int(max(0.0, scale * raw[s.name]) * s.size)
                for s in tensors
            }
        whole |= {s.name for s in rest if raw[s.name] == most}


def scattered(layout: Layout, counts: dict[str, int], keys: Tensor) -> Tensor:
    """Masks with `counts` random entries per tensor, one mask per key [K]; running statistics are
    always in  [K, D] bool.
    """
    mask = torch.ones(len(keys), layout.size, dtype=torch.bool, device=layout.device)
    for rows in blocks(len(keys)):
        for name, count in counts.items():
            s, own = layout[name], keys[rows]
            if count < s.size:
                mask[rows, s.start : s.stop] = largest(
                    lots(own, s.start, s.size), own.new_full((len(own),), count)
                )
    return mask
