"""Points of the unit simplex: convex weights that solve small quadratic problems, and places for
many points far from each other.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor


def least_squares(columns: np.ndarray) -> np.ndarray:
    """The weights a >= 0 with sum 1 that minimise |columns a|^2  [m, n] -> [n].

    With b = s a and s = sum b, |columns b|^2 + (1 - sum b)^2 = s^2 q(a) + (1 - s)^2, whose minimum
    over s is q / (1 + q), increasing in q. So the direction of the non-negative least-squares
    solution b is the minimiser, and scipy's active-set method needs no tolerance.
    """
    scale = np.abs(columns).max(initial=0.0)
    if scale == 0.0:
        return np.full(columns.shape[1], 1.0 / columns.shape[1])
    system = np.vstack([columns / scale, np.ones((1, columns.shape[1]))])
    goal = np.zeros(len(system))
    goal[-1] = 1.0
    found, _ = nnls(system, goal, maxiter=30 * columns.shape[1])
    return found / found.sum()


# -- places ----------------------------------------------------------------------------------------


def principal(rows: Tensor, count: int) -> Tensor:
    """Principal coordinates; every axis points where its largest loading is positive, as in
    scikit-learn  [N, n] -> [N, count].
    """
    left, size, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True)).squeeze(1).sign()
    found = (left * size * signs)[:, :count]
    return torch.cat([found, found.new_zeros(len(rows), count - found.shape[1])], 1)


def spread(points: Tensor) -> Tensor:
    """Places in the unit simplex: projections of points [N, V], with the size of simplex that keeps
    them furthest apart  [N, V].
    """
    candidates = [on_simplex(points, z) for z in np.linspace(1e-4, 1, 1000)]
    crowding = np.array(
        [float((1 / torch.pdist(found).clamp(min=1e-4).square()).mean()) for found in candidates]
    )
    return candidates[int(np.where(np.isfinite(crowding), crowding, np.inf).argmin())]


def on_simplex(points: Tensor, size: float) -> Tensor:
    """Euclidean projections of rows onto {x >= 0, sum x = size}, divided by their sum  [N, V]."""
    ordered = points.sort(dim=1, descending=True).values
    excess = ordered.cumsum(1) - size
    rank = torch.arange(1, points.shape[1] + 1, dtype=points.dtype)
    last = (ordered - excess / rank > 0).sum(1, keepdim=True).clamp(min=1)
    found = (points - excess.gather(1, last - 1) / last).clamp(min=0)
    return found / found.sum(1, keepdim=True)
