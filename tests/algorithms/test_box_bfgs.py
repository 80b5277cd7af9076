"""The minimiser of small functions in a box, as pFedFDA uses it."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from repfl.algorithms.math import box_bfgs

CENTRES = torch.tensor(
    [[0.3, 0.6], [1.4, 0.2], [-0.5, 1.5], [0.5, 0.5], [0.9, -0.2]], dtype=torch.float64
)
SHAPES = torch.tensor(
    [
        [[9, 2], [2, 3]],
        [[40, 0], [0, 1]],
        [[5, -2], [-2, 4]],
        [[1, 0], [0, 1]],
        [[2, 1.9], [1.9, 2]],
    ],
    dtype=torch.float64,
)


def bowls(x: Tensor, of: slice = slice(None)) -> Tensor:
    away = x - CENTRES[of]
    return torch.einsum("ki,kij,kj->k", away, SHAPES[of], away) + away.square().sum(1).square()


def test_minima_in_the_box_are_those_of_scipy() -> None:
    start = torch.full((5, 2), 0.5, dtype=torch.float64)
    found, value = box_bfgs.minimise(bowls, start, iterations=50, tolerance=1e-8)
    for k in range(5):

        def bowl(x: np.ndarray, k: int = k) -> float:
            return float(bowls(torch.from_numpy(x)[None], slice(k, k + 1)))

        best = minimize(bowl, [0.5, 0.5], bounds=[(0, 1)] * 2, tol=1e-14)
        assert value[k].item() <= best.fun + 1e-9
        np.testing.assert_allclose(found[k], best.x, atol=1e-4)


def test_a_problem_without_a_finite_start_stays_there() -> None:
    start = torch.full((1, 2), 0.5, dtype=torch.float64)
    found, value = box_bfgs.minimise(lambda x: torch.where(x[:, 0] >= 0, torch.nan, x[:, 0]), start)
    assert torch.equal(found, start)
    assert torch.isnan(value).all()
