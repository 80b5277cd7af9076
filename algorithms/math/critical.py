"""Critical entries and who shares them with whom: the server's side of FedCAC, which FedPURIN
adopts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.engine.params import Slice
from repfl.algorithms.math.masks import topk_threshold

Cutoff = Literal["code", "empty", "off"]
"""What happens if a tensor's threshold is practically zero, so that entries of no effect would be
critical:
code  - only entries above the floor are critical; if none is above it, the threshold stays as it
        is, so all are critical at a threshold of zero
empty - only entries above the floor are critical; none of them if none is above it
off   - the threshold stays as it is
"""
PRACTICALLY_ZERO = 1e-10


def critical(
    scores: Tensor, share: float, tensors: Sequence[Slice], cutoff: Cutoff, floor: float
) -> Tensor:
    """Return the mask of the entries that score at least as high as the int(share * n)-th best of
    their tensor, all ties included  [K, D] -> [K, D] bool.
    """
    mask = torch.zeros_like(scores, dtype=torch.bool)
    for s in tensors:
        part = scores[:, s.place]
        threshold = topk_threshold(part, int(share * s.size))  # [K, 1]
        if cutoff != "off":
            least = torch.where(part > floor, part, float("inf")).amin(dim=1, keepdim=True)
            replaced = threshold <= PRACTICALLY_ZERO
            if cutoff == "code":
                replaced = replaced & least.isfinite()
            threshold = torch.where(replaced, least, threshold)
        mask[:, s.place] = part >= threshold
    return mask


def overlaps(masks: Tensor) -> Tensor:
    """Return O_ij = 1 - |m_i - m_j|_1 / (2 n_i), n_i being client i's own count  [K, K] float64."""
    counted = masks.float()
    common = (counted @ counted.T).double()  # sums of ones are exact below 2^24
    own = common.diagonal()
    differing = own[:, None] + own[None, :] - 2 * common
    return 1 - differing / (2 * own[:, None]).clamp(min=1)


def collaborators(overlap: Tensor, progress: float) -> Tensor:
    """Return the pairs i != j whose overlap reaches a threshold, which rises from the mean to the
    maximum as progress = t / beta goes to 1  [K, K] bool.
    """
    K = len(overlap)
    others = ~torch.eye(K, dtype=torch.bool, device=overlap.device)
    if K < 2:
        return others
    # all but the diagonal, row by row
    between = overlap.flatten()[1:].view(K - 1, K + 1)[:, :-1].flatten()
    mean, most = between.mean(), between.max()
    threshold = torch.lerp(mean, most, progress)  # exactly the maximum at 1
    return (overlap >= threshold) & others


def average_with(partners: Tensor, models: Tensor) -> Tensor:
    """Return each client's model averaged with its partners'  [K, K] bool, [K, D] -> [K, D]."""
    together = partners | torch.eye(len(partners), dtype=torch.bool, device=partners.device)
    weights = together.to(models.dtype)
    return (weights @ models) / weights.sum(dim=1, keepdim=True)
