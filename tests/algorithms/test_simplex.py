"""Places in the unit simplex, as FLOCO uses them."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math.simplex import principal, spread


def normal(*shape: int) -> Tensor:
    return torch.from_numpy(Streams(0).at("points").standard_normal(shape))


def test_principal_coordinates_are_those_of_scikit_learn() -> None:
    rows = normal(7, 30)
    expected = PCA(n_components=4, svd_solver="full").fit_transform(rows.numpy())
    torch.testing.assert_close(principal(rows, 4), torch.from_numpy(expected))


def test_fewer_clients_than_endpoints_leave_coordinates_at_zero() -> None:
    assert torch.equal(principal(normal(2, 30), 5)[:, 2:], torch.zeros(2, 3, dtype=torch.float64))


def test_places_are_spread_as_in_a_plain_search() -> None:
    # scaled so that the best size is neither the least nor the largest
    points, sizes = 0.2 * normal(5, 3).numpy(), np.linspace(1e-4, 1, 1000)
    rows = []
    for point in points:
        # the shift that makes the positive part sum to z, by bisection, for all z at once
        low, high = point.min() - sizes, np.full(1000, point.max())
        for _ in range(80):
            middle = (low + high) / 2
            over = np.maximum(point - middle[:, None], 0).sum(1) > sizes
            low, high = np.where(over, middle, low), np.where(over, high, middle)
        row = np.maximum(point - low[:, None], 0)
        rows.append(row / row.sum(1, keepdims=True))
    pairs = [np.linalg.norm(rows[i] - rows[j], axis=1) for i in range(5) for j in range(i)]
    best = np.log(np.mean(1 / np.maximum(pairs, 1e-4) ** 2, axis=0)).argmin()
    expected = torch.from_numpy(np.array([row[best] for row in rows]))
    torch.testing.assert_close(spread(torch.from_numpy(points)), expected, rtol=0, atol=1e-9)
