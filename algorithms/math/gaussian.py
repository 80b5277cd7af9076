"""Features as Gaussians, one per class with a common covariance: fitted to samples, made into a
head, split for cross-validation.
"""

from __future__ import annotations

import torch
from torch import Tensor


def discriminant(means: Tensor, cov: Tensor, prior: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The linear head that classifies such features best: S' = (1 - eps) S + eps tr(S) / F I, W = M
    S'^-1, b = log prior - M W / 2.

    [..., classes, F], [..., F, F], [..., classes] -> [..., classes, F], [..., classes].
    """
    size = cov.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    shrunk = (1 - eps) * cov + eps * size * torch.eye(
        cov.shape[-1], dtype=cov.dtype, device=cov.device
    )
    weight = torch.linalg.solve_ex(shrunk, means.transpose(-1, -2)).result.transpose(-1, -2)
    return weight, prior.log() - 0.5 * (means * weight).sum(-1)


def member(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """One-hot labels; a label of -1 is nobody's  [K, n] -> [K, n, classes]."""
    return (labels[:, :, None] == torch.arange(classes, device=labels.device)).to(dtype)


def gaussian(
    features: Tensor, belongs: Tensor, fallback: Tensor, rare: int = 0, centre_rare: bool = False
) -> tuple[Tensor, Tensor]:
    """Class means [K, classes, F] and the covariance around them [K, F, F] of samples [K, n, F]
    that belong to classes [K, n, classes].

    Classes with at most `rare` samples have the fallback [classes, F] for a mean; the covariance is
    centred on it only with `centre_rare`.
    """
    count = belongs.sum(1)  # [K, classes]
    own = belongs.transpose(1, 2) @ features / count.clamp(min=1)[:, :, None]
    means = torch.where((count > rare)[:, :, None], own, fallback)
    centred = features * belongs.sum(2, keepdim=True) - belongs @ (means if centre_rare else own)
    spread = centred.transpose(1, 2) @ centred / (count.sum(1) - 1).clamp(min=1)[:, None, None]
    return means, spread + 1e-4 + torch.eye(
        features.shape[2], dtype=features.dtype, device=features.device
    )


def folds(labels: Tensor, order: Tensor, classes: int) -> Tensor:
    """Two folds with equal shares of every class, dealt in the given order [n]; -1: padding, or a
    class with a single sample  [K, n].
    """
    alone = member(labels, classes, torch.int64).sum(1) < 2  # [K, classes]
    usable = labels.where((labels >= 0) & ~alone.gather(1, labels.clamp(min=0)), -1)[:, order]
    rank = usable.argsort(
        dim=1, stable=True
    )  # places in `order`, class by class, unusable ones first
    dealt = torch.arange(labels.shape[1], device=labels.device) - (usable < 0).sum(1, keepdim=True)
    return torch.empty_like(labels).scatter_(1, order[rank], torch.where(dealt >= 0, dealt % 2, -1))
