"""fedpac: limiting cases, a plain transcription."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms import fedpac
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import simplex
from repfl.algorithms.math.class_stats import class_statistics
from tests.algorithms import plain, toys


def simplest(matrix: np.ndarray) -> np.ndarray:
    """argmin of a^T matrix a over the simplex, by trying every support."""
    n, best, value = len(matrix), np.zeros(0), np.inf
    for size in range(1, n + 1):
        for support in map(list, combinations(range(n), size)):
            a = np.zeros(n)
            a[support] = np.linalg.solve(matrix[np.ix_(support, support)] + 1e-300, np.ones(size))
            a /= a.sum()
            if (a >= 0).all() and a @ matrix @ a < value:
                best, value = a, a @ matrix @ a
    return best


@pytest.mark.parametrize("case", range(5))
def test_simplex_least_squares_finds_the_minimiser(case: int) -> None:
    columns = Streams(case).at("columns").standard_normal((9, 5)) + 0.5
    assert np.abs(simplex.least_squares(columns) - simplest(columns.T @ columns)).max() < 1e-12


def test_simplex_least_squares_of_nothing_is_even() -> None:
    assert simplex.least_squares(np.zeros((3, 4))).tolist() == [0.25] * 4


def test_combination_weights_lie_on_the_simplex_and_clients_without_samples_stand_apart() -> None:
    fed = toys.run("local", dtype=torch.float64, rounds=1).fed
    found = class_statistics(fed, fed.new_model().double().expand(fed.N, -1))
    weights = fedpac.combination(fed, found.count, found.means, fedpac.head_variances(found))
    assert bool((weights >= 0).all())
    assert torch.allclose(weights.sum(1), torch.ones(6, dtype=torch.float64), rtol=0, atol=1e-14)
    assert weights[2].tolist() == weights[:, 2].tolist() == [0, 0, 1, 0, 0, 0]
    assert not bool(((weights > 0) & (weights <= fedpac.SMALL)).any())


def test_combination_of_one_client_is_its_own() -> None:
    one, own = (
        toys.run("fedpac", {"combine": combine}, sizes=(12,), model="tiny-bn")
        for combine in (True, False)
    )
    assert all(torch.equal(one.state[name], own.state[name]) for name in one.state)


def moments(fed: Federation, w: Tensor, client: int) -> tuple[Any, Any, float, Tensor]:
    """Class means, class counts, V and h of one client, sample by sample."""
    mine = fed.data.train[client]
    with torch.no_grad():
        features = plain.features(plain.named(fed, w), fed.data.inputs(mine), train=False)
    labels = fed.data.labels[mine].tolist()
    h = torch.zeros(fed.classes, features.shape[1], dtype=torch.float64)
    means, counts, v = {}, {}, 0.0
    for k in sorted(set(labels)):
        own = torch.stack([f for f, y in zip(features, labels, strict=True) if y == k])
        means[k], counts[k], p = own.mean(0), len(own), len(own) / len(labels)
        h[k] = p * means[k]
        v += p * float((own * own).sum()) / len(own) - p * p * float(means[k] @ means[k])
    return means, counts, v / len(labels), h


def combined(v: list[float], h: list[Tensor], heads: list[Tensor], i: int) -> Tensor:
    """Client i's new head: the quadratic programme written out."""
    away = [(h[i] - other).flatten() for other in h]
    matrix = np.array([[float(one @ other) for other in away] for one in away]) + np.diag(v)
    a = simplest(matrix)
    a = np.where(a > 1e-3, a, 0.0)
    return sum(float(weight) * head for weight, head in zip(a / a.sum(), heads, strict=True))  # type: ignore[return-value]


def test_fedpac_follows_its_plain_transcription() -> None:
    how: dict[str, Any] = {"dtype": torch.float64, "buffers": "global"}
    run = toys.run("fedpac", {"lam": 0.8}, model="tiny-bn", sizes=(25, 7, 40, 16), **how)
    fed, head, clients = run.fed, run.fed.params.head, range(4)
    theta, heads, centroids = fed.new_model().double(), [fed.new_model().double()[head]] * 4, {}
    for round_ in (1, 2, 3):
        ends, v, h, sums = [], [], [], {}
        for client in clients:
            start = theta.clone()
            start[head] = heads[client]
            own, _, spread, scaled = moments(fed, start, client)
            goals = own | centroids

            def loss(
                p: dict[str, Tensor],
                x: Tensor,
                y: Tensor,
                goals: dict[int, Tensor] = goals,
                first: bool = round_ == 1,
            ) -> Tensor:
                seen = plain.features(p, x)
                aligned = F.mse_loss(seen, torch.stack([goals[k] for k in y.tolist()]))
                loss = F.cross_entropy(F.linear(seen, p["fc2.weight"], p["fc2.bias"]), y)
                return loss + (0.0 if first else 0.8 * aligned)

            end, _ = plain.train(fed, start, client, round_, epochs=1, lr=0.1, trainable=head)
            how: dict[str, Any] = {"trainable": ~head, "first": 1, "loss": loss}
            ends.append(plain.train(fed, end, client, round_, **how)[0])
            v.append(spread)
            h.append(scaled)
            after, counts, _, _ = moments(fed, ends[-1], client)
            for k, mean in after.items():
                total, count = sums.get(k, (0.0, 0))
                sums[k] = (total + counts[k] * mean, count + counts[k])
        centroids |= {k: total / count for k, (total, count) in sums.items()}
        heads = [combined(v, h, [end[head] for end in ends], i) for i in clients]
        mean = sum(p * end for p, end in zip(plain.weights(fed, list(clients)), ends, strict=True))
        theta = torch.where(head, theta, mean)
    assert plain.apart(theta, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(heads), run.state["own"]) < 1e-9
    assert plain.apart(torch.stack([centroids[k] for k in range(4)]), run.state["centroids"]) < 1e-9


def test_centroids_that_nobody_renews_stay() -> None:
    run = toys.run("fedpac", participation=1 / 6, rounds=1)
    state = run.state | {"centroids": torch.ones_like(run.state["centroids"])}
    present = torch.zeros(4, dtype=torch.bool)
    present[run.fed.data.labels[run.fed.data.train[int(run.fed.active)]]] = True
    with run.fed.as_active(run.fed.active):
        after = run.method.round(state, run.fed)
    assert bool((after["centroids"][~present] == 1).all())
    assert not bool((after["centroids"][present] == 1).all(1).any())
