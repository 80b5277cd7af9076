"""Points of the unit simplex: convex weights that solve small quadratic problems, and projections
that keep many points far from each other. All of it runs on the CPU.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import nnls
from torch import Tensor


def least_squares(columns: np.ndarray) -> np.ndarray:
    """Return the weights a >= 0 with sum 1 that minimise |columns a|^2  [m, n] -> [n].

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
    direction, _ = nnls(system, goal, maxiter=30 * columns.shape[1])
    return direction / direction.sum()


def principal(rows: Tensor, count: int) -> Tensor:
    """Return principal coordinates; every axis points where its largest loading is positive, as in
    scikit-learn, and missing ones are zero  [N, n] -> [N, count].
    """
    left, size, axes = torch.linalg.svd(rows - rows.mean(0), full_matrices=False)
    signs = axes.gather(1, axes.abs().argmax(1, keepdim=True)).squeeze(1).sign()
    scores = (left * size * signs)[:, :count]
    return F.pad(scores, (0, count - scores.shape[1]))


def spread(points: Tensor) -> Tensor:
    """Return projections of points onto the unit simplex, by way of the size of simplex that keeps
    them furthest apart  [N, V].
    """
    candidates = [on_simplex(points, z) for z in np.linspace(1e-4, 1, 1000)]
    crowding = np.array(
        [float((1 / torch.pdist(rows).clamp(min=1e-4).square()).mean()) for rows in candidates]
    )
    return candidates[int(np.where(np.isfinite(crowding), crowding, np.inf).argmin())]


def on_simplex(points: Tensor, size: float) -> Tensor:
    """Return Euclidean projections of rows onto {x >= 0, sum x = size}, divided by their sum
    [N, V].
    """
    ordered = points.sort(dim=1, descending=True).values
    excess = ordered.cumsum(1) - size
    rank = torch.arange(1, points.shape[1] + 1, dtype=points.dtype)
    last = (ordered - excess / rank > 0).sum(1, keepdim=True).clamp(min=1)
    projected = (points - excess.gather(1, last - 1) / last).clamp(min=0)
    return projected / projected.sum(1, keepdim=True)
