"""pFedFDA by its paper's rules: limiting cases, a plain transcription. FL-bench's are compared with
FL-bench.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.engine.rng import Streams
from repfl.algorithms.math import box_bfgs
from repfl.algorithms.math.gaussian import discriminant, folds
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)
EPS = 1e-4


def head_of(fed: Federation, flat: Tensor) -> tuple[Tensor, Tensor]:
    p = plain.named(fed, flat)
    return p["fc2.weight"], p["fc2.bias"]


def test_global_weights_give_the_global_head_with_local_priors() -> None:
    run = toys.run("pfedfda", {"beta": "global"}, dtype=torch.float64)
    counts = run.fed.data.class_counts.double()
    for i, flat in enumerate(toys.everybody(run)):
        prior = counts[i] / max(counts[i].sum().item(), 1) + EPS
        expected = discriminant(run.state["means"], run.state["cov"], prior / prior.sum(), EPS)
        for one, other in zip(expected, head_of(run.fed, flat), strict=True):
            assert plain.apart(one, other) < 1e-9


def test_local_weights_ignore_global_statistics_except_for_absent_classes() -> None:
    run = toys.run("pfedfda", {"beta": "local"}, dtype=torch.float64)
    before = toys.everybody(run)
    run.state = run.state | {"cov": 5 * run.state["cov"], "means": run.state["means"] + 1}
    after = toys.everybody(run)
    for i in range(run.fed.N):
        common = run.fed.data.class_counts[i] > 2
        for one, other in zip(head_of(run.fed, before[i]), head_of(run.fed, after[i]), strict=True):
            assert torch.allclose(one[common], other[common], rtol=1e-9)
            assert not torch.isclose(one[~common], other[~common]).all() or not (~common).any()


def test_clients_too_small_for_folds_use_global_statistics_only() -> None:
    run = toys.run("pfedfda", sizes=(25, 1, 12, 0), epochs=1, dtype=torch.float64)
    assert torch.equal(run.state["beta"][[1, 3]], torch.zeros(2, 2, dtype=torch.float64))
    assert run.state["beta"][[0, 2]].any()


def test_folds_share_every_class_evenly_and_drop_lonely_samples() -> None:
    labels = torch.tensor([[0, 1, 0, 2, 0, 1, 1, 1, -1], [3, 3, 3, 3, 3, 3, 0, -1, -1]])
    found = folds(labels, torch.from_numpy(Streams(0).at("order").permutation(9)), 4)
    lonely = [[0, 0, 0, 1, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0, 1, 1, 1]]
    assert torch.equal(found < 0, torch.tensor(lonely, dtype=torch.bool))
    for row, fold in zip(labels, found, strict=True):
        for c in range(4):
            assert abs(int((fold[row == c] == 0).sum()) - int((fold[row == c] == 1).sum())) <= 1


def lda(means: Tensor, cov: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
    d = len(cov)
    shrunk = (1 - EPS) * cov + EPS * torch.trace(cov) / d * torch.eye(d, dtype=cov.dtype)
    weight = torch.linalg.lstsq(shrunk, means.T).solution.T
    return weight, -0.5 * torch.diag(means @ weight.T) + torch.log(prior)


def statistics(feats: Tensor, labels: Tensor, means_g: Tensor, rare: int) -> tuple[Tensor, Tensor]:
    means, rows = means_g.clone(), []
    for c in sorted(set(labels.tolist())):
        part = feats[labels == c]
        if len(part) > rare:
            means[c] = part.mean(0)
        rows.append(part - part.mean(0))
    centred = torch.cat(rows) if rows else feats
    eye = torch.eye(feats.shape[1], dtype=feats.dtype)
    return means, centred.T @ centred / max(len(centred) - 1, 1) + 1e-4 + eye


def split(labels: Tensor, keys: np.ndarray, classes: int) -> list[list[int]]:
    parts: list[list[int]] = [[], []]
    dealt = 0
    for c in range(classes):
        own = sorted((j for j in range(len(labels)) if labels[j] == c), key=lambda j: keys[j])
        for j in own if len(own) > 1 else []:
            parts[dealt % 2].append(j)
            dealt += 1
    return parts


def adapted(
    fed: Federation,
    feats: Tensor,
    labels: Tensor,
    prior: Tensor,
    means_g: Tensor,
    cov_g: Tensor,
    t: int,
    rare: int,
) -> tuple[Tensor, Tensor, Tensor]:
    parts = split(labels, fed.streams.at("method/folds", t).random(len(labels)), fed.classes)
    beta = torch.zeros(2, dtype=torch.float64)
    if min(map(len, parts)) >= 2:
        fits = [statistics(feats[part], labels[part], means_g, 0) for part in parts[::-1]]

        def loss(b: Tensor) -> Tensor:
            total = torch.zeros((), dtype=torch.float64)
            for f in (0, 1):
                means, cov = fits[f]
                means = b[0, 0] * means + (1 - b[0, 0]) * means_g
                w, c = lda(means, b[0, 1] * cov + (1 - b[0, 1]) * cov_g, prior)
                total = total + F.cross_entropy(feats[parts[f]] @ w.T + c, labels[parts[f]])
            return total[None]

        beta = box_bfgs.minimise(loss, torch.full((1, 2), 0.5, dtype=torch.float64))[0][0]
    means, cov = statistics(feats, labels, means_g, rare)
    return beta[0] * means + (1 - beta[0]) * means_g, beta[1] * cov + (1 - beta[1]) * cov_g, beta


def transcription(fed: Federation, rounds: int) -> dict[str, Tensor]:
    """pFedFDA client by client, everybody in every round."""
    theta, d = fed.new_model().double(), fed.params.head_weight.shape[1]
    means_g = torch.from_numpy(fed.streams.at("method/means", 0).random((fed.classes, d)))
    cov_g, share = torch.eye(d, dtype=torch.float64), plain.weights(fed, list(range(fed.N)))
    everyone, labels_of = range(fed.N), [fed.data.labels[part] for part in fed.data.train]
    priors = [torch.bincount(y, minlength=fed.classes).double() / len(y) + EPS for y in labels_of]
    priors = [p / p.sum() for p in priors]
    for t in range(1, rounds + 1):
        ends, fits = [], []
        for i in everyone:
            flat, feats, labels = theta.clone(), [], []
            p = plain.named(fed, flat)
            p["fc2.weight"][:], p["fc2.bias"][:] = lda(means_g, cov_g, priors[i])
            for x, y in plain.batches(fed, i, t, fed.protocol.epochs):
                feats.append(plain.features(p, x).clone())
                labels.append(y)
                grad = plain.gradient(fed, flat, x, y)
                flat[~fed.params.head] -= fed.protocol.lr * grad[~fed.params.head]
            ends.append(flat)
            seen = torch.cat(feats), torch.cat(labels), priors[i]
            fits.append(adapted(fed, *seen, means_g, cov_g, t, 0))
        theta = sum(p * end for p, end in zip(share, ends, strict=True))
        means_g = sum(p * fit[0] for p, fit in zip(share, fits, strict=True))
        cov_g = sum(p * fit[1] for p, fit in zip(share, fits, strict=True))
        betas = torch.stack([fit[2] for fit in fits])
    scored = []
    for i in everyone:
        flat = theta.clone()
        p = plain.named(fed, flat)
        feats = plain.features(p, fed.data.inputs(fed.data.train[i]), train=False)
        seen = feats, labels_of[i], priors[i]
        means, cov, _ = adapted(fed, *seen, means_g, cov_g, rounds, 2)
        p["fc2.weight"][:], p["fc2.bias"][:] = lda(means, cov, priors[i])
        scored.append(flat)
    found = {"theta": theta, "means": means_g, "cov": cov_g, "beta": betas}
    return found | {"scored": torch.stack(scored)}


def test_pfedfda_follows_its_plain_transcription() -> None:
    run = toys.run("pfedfda", sizes=SIZES, dtype=torch.float64, stack=4)
    expected, body = transcription(run.fed, 3), ~run.fed.params.head
    assert plain.apart(expected["theta"][body], run.state["theta"][body]) < 1e-9
    for name in ("means", "cov", "beta"):
        assert plain.apart(expected[name], run.state[name]) < 1e-9
    assert plain.apart(expected["scored"], toys.everybody(run)) < 1e-9
