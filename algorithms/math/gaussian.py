"""Features as Gaussians, one per class with a common covariance: fitted to samples, made into a
head, split for cross-validation.
"""

from __future__ import annotations

import torch
from torch import Tensor


def discriminant(means: Tensor, cov: Tensor, prior: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the best linear head for such features: S' = (1 - eps) S + eps
    tr(S) / F I, W = M S'^-1, b = log prior - M W / 2.

    [..., classes, F], [..., F, F], [..., classes] -> [..., classes, F], [..., classes].
    """
    size = cov.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    shrunk = (1 - eps) * cov + eps * size * identity(cov)
    weight = torch.linalg.solve_ex(shrunk, means.mT).result.mT
    return weight, prior.log() - 0.5 * (means * weight).sum(-1)


def one_hot(labels: Tensor, classes: int, dtype: torch.dtype) -> Tensor:
    """Return one-hot labels; zeros for a label of -1, which is padding  [..., n] ->
    [..., n, classes].
    """
    return (labels[..., None] == torch.arange(classes, device=labels.device)).to(dtype)


def gaussian(
    features: Tensor, member: Tensor, fallback: Tensor, rare: int = 0, centre_rare: bool = False
) -> tuple[Tensor, Tensor]:
    """Return class means [K, classes, F] and the covariance around them [K, F, F] of samples
    [K, n, F] that belong to classes [K, n, classes].

    Classes with at most `rare` samples have the fallback [classes, F] for a mean; the covariance is
    centred on it only with `centre_rare`.
    """
    count = member.sum(1)  # [K, classes]
    own = member.mT @ features / count.clamp(min=1)[:, :, None]
    means = torch.where((count > rare)[:, :, None], own, fallback)
    centred = features * member.sum(2, keepdim=True) - member @ (means if centre_rare else own)
    cov = centred.mT @ centred / (count.sum(1) - 1).clamp(min=1)[:, None, None]
    return means, cov + 1e-4 + identity(cov)


def folds(labels: Tensor, order: Tensor, classes: int) -> Tensor:
    """Deal samples into two folds with equal shares of every class, in the given order [n]; -1:
    padding, or the only sample of its class  [K, n].
    """
    alone = one_hot(labels, classes, torch.int64).sum(1) < 2  # [K, classes]
    usable = labels.where((labels >= 0) & ~alone.gather(1, labels.clamp(min=0)), -1)[:, order]
    # positions in `order`, class by class, unusable ones first
    rank = usable.argsort(dim=1, stable=True)
    dealt = torch.arange(labels.shape[1], device=labels.device) - (usable < 0).sum(1, keepdim=True)
    return torch.empty_like(labels).scatter_(1, order[rank], torch.where(dealt >= 0, dealt % 2, -1))


def identity(like: Tensor) -> Tensor:
    """Return the identity matrix of the last dimension, on the same device  [n, n]."""
    return torch.eye(like.shape[-1], dtype=like.dtype, device=like.device)
