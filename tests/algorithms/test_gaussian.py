"""Gaussian features and the minimiser of small functions, as pFedFDA uses them."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import MultivariateNormal

from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import box
from repfl.algorithms.math.gaussian import discriminant, folds, gaussian, one_hot


def normal(*shape: int, purpose: str = "features") -> Tensor:
    return torch.from_numpy(Streams(0).at(purpose).standard_normal(shape))


# -- Gaussians -------------------------------------------------------------------------------------


def test_the_head_is_bayes_rule_for_gaussian_features() -> None:
    means, root, prior = (
        normal(3, 5),
        normal(5, 5, purpose="root"),
        torch.tensor([0.5, 0.2, 0.3], dtype=torch.float64),
    )
    cov = root @ root.T + torch.eye(5, dtype=torch.float64)
    weight, bias = discriminant(means, cov, prior, 0.0)
    x = normal(4, 5, purpose="x")
    joint = (
        torch.stack([MultivariateNormal(mean, cov).log_prob(x) for mean in means], 1) + prior.log()
    )
    torch.testing.assert_close((x @ weight.T + bias).softmax(1), joint.softmax(1))


def test_means_and_covariance_are_those_of_numpy() -> None:
    features, labels = normal(1, 20, 4), torch.arange(20)[None] % 3
    means, cov = gaussian(
        features, one_hot(labels, 4, torch.float64), torch.full((4, 4), 7.0, dtype=torch.float64)
    )
    parts = [features[0][labels[0] == c].numpy() for c in range(3)]
    centred = np.concatenate([part - part.mean(0) for part in parts])
    np.testing.assert_allclose(means[0, :3], [part.mean(0) for part in parts])
    assert torch.equal(means[0, 3], torch.full((4,), 7.0, dtype=torch.float64))
    np.testing.assert_allclose(cov[0], centred.T @ centred / 19 + 1e-4 + np.eye(4))


def test_rare_classes_take_the_fallback_and_keep_their_own_centre() -> None:
    features, labels = normal(1, 7, 4), torch.tensor([[0, 0, 0, 0, 0, 1, 1]])
    belongs, fallback = one_hot(labels, 2, torch.float64), torch.zeros(2, 4, dtype=torch.float64)
    common, plain_cov = gaussian(features, belongs, fallback, rare=0)
    means, cov = gaussian(features, belongs, fallback, rare=2)
    assert torch.equal(means[0, 0], common[0, 0])
    assert torch.equal(means[0, 1], fallback[1])
    assert torch.equal(cov, plain_cov)
    _, far = gaussian(features, belongs, fallback, rare=2, centre_rare=True)
    assert not torch.allclose(far, plain_cov)


def test_folds_share_every_class_evenly_and_drop_lonely_samples() -> None:
    labels = torch.tensor([[0, 1, 0, 2, 0, 1, 1, 1, -1], [3, 3, 3, 3, 3, 3, 0, -1, -1]])
    found = folds(labels, torch.from_numpy(Streams(0).at("order").permutation(9)), 4)
    assert torch.equal(
        found < 0,
        torch.tensor([[0, 0, 0, 1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1]], dtype=torch.bool),
    )
    for row, fold in zip(labels, found, strict=True):
        for c in range(4):
            counts = [int(((row == c) & (fold == f)).sum()) for f in (0, 1)]
            assert abs(counts[0] - counts[1]) <= 1


# -- the minimiser ---------------------------------------------------------------------------------

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
    found, value = box.minimise(
        bowls, torch.full((5, 2), 0.5, dtype=torch.float64), iterations=50, tolerance=1e-8
    )
    for k in range(5):
        part = slice(k, k + 1)
        best = minimize(
            lambda x, part=part: float(bowls(torch.from_numpy(x)[None], part)),
            [0.5, 0.5],
            bounds=[(0, 1)] * 2,
            tol=1e-14,
        )
        assert value[k].item() <= best.fun + 1e-9
        np.testing.assert_allclose(found[k], best.x, atol=1e-4)


def test_problems_do_not_disturb_each_other() -> None:
    start = torch.full((5, 2), 0.5, dtype=torch.float64)
    together, _ = box.minimise(bowls, start)
    for k in range(5):
        alone, _ = box.minimise(lambda x, k=k: bowls(x, slice(k, k + 1)), start[:1])
        torch.testing.assert_close(alone[0], together[k], rtol=0, atol=1e-12)


def test_a_problem_without_a_finite_start_stays_there() -> None:
    found, value = box.minimise(
        lambda x: torch.where(x[:, 0] >= 0, torch.nan, x[:, 0]),
        torch.full((1, 2), 0.5, dtype=torch.float64),
    )
    assert torch.equal(found, torch.full((1, 2), 0.5, dtype=torch.float64))
    assert torch.isnan(value).all()
