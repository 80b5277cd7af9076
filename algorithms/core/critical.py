"""Critical entries and who shares them with whom: the server side of FedCAC, which FedPURIN takes
over.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core.layout import Layout, kth_largest

Cutoff = Literal["code", "empty", "off"]
"""What happens where a tensor's bar is practically zero (its critical share would include dead
entries):
code  - lower the share to the entries above the floor; a tensor without any keeps its bar, so an
      all-zero tensor is critical as a whole
empty - the same, but a tensor without any entry above the floor has no critical entries
off   - nothing: the share is taken whatever the scores
"""
PRACTICALLY_ZERO = 1e-10


def critical(
    layout: Layout, scores: Tensor, share: float, within: Tensor, cutoff: Cutoff, floor: float
) -> Tensor:
    """Per tensor, the entries scoring at least as high as the int(share * n)-th best  [K, D] bool;
    ties are all taken.
    """
    mask = torch.zeros(scores.shape, dtype=torch.bool, device=scores.device)
    for place in layout.tensors(within):
        part = scores[:, place]
        bar = kth_largest(part, int(share * part.shape[1]))
        if cutoff != "off" and (part.is_cuda or bool((bar <= PRACTICALLY_ZERO).any())):
            least = torch.where(part > floor, part, float("inf")).amin(dim=1, keepdim=True)
            found = (
                torch.isfinite(least)
                if cutoff == "code"
                else torch.ones_like(least, dtype=torch.bool)
            )
            bar = torch.where((bar <= PRACTICALLY_ZERO) & found, least, bar)
        mask[:, place] = part >= bar
    return mask


def overlaps(masks: Tensor) -> Tensor:
    """O_ij = 1 - |m_i - m_j|_1 / (2 n_i), the client's own count below  [K, K] float64."""
    counted = masks.float()
    common = (counted @ counted.T).double()  # sums of ones are exact below 2^24
    own = common.diagonal()
    differing = own[:, None] + own[None, :] - 2 * common
    return 1 - differing / (2 * own[:, None]).clamp(min=1)


def collaborators(overlap: Tensor, progress: float) -> Tensor:
    """Pairs i != j whose overlap reaches the bar: it rises from the mean to the maximum as progress
    = t / beta goes to 1  [K, K] bool.
    """
    others = ~torch.eye(len(overlap), dtype=torch.bool, device=overlap.device)
    if len(overlap) < 2:
        return others
    mean, most = overlap[others].mean(), overlap[others].max()
    bar = torch.lerp(mean, most, progress)  # exactly the maximum at 1
    return (overlap >= bar) & others


def mixed(models: Tensor, partners: Tensor) -> Tensor:
    """Each client's model averaged with its partners'  [K, D]."""
    together = partners | torch.eye(len(partners), dtype=torch.bool, device=partners.device)
    weights = together.to(models.dtype)
    return (weights @ models) / weights.sum(dim=1, keepdim=True)
