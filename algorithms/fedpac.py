"""FedPAC: features drawn towards shared class centroids, classifiers combined for each client."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from repfl.algorithms.engine.params import columns, write_columns
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math import simplex
from repfl.algorithms.math.class_stats import ClassStatistics, class_statistics

SMALL = 1e-3
"""Combination weights up to this are dropped, as the reference code does."""


@hyperparameters
class HP:
    """Feature alignment and classifier collaboration."""

    lam: float = param(
        1.0,
        "weight of the distance between features and class centroids",
        ge=0,
        paper=1.0,
        search={"log": [0.01, 10]},
    )
    head_epochs: int = param(
        1,
        "epochs in which the head trains alone, before the body does",
        ge=0,
        paper=1,
        search={"one of": [1, 2]},
    )
    head_lr: float | None = param(
        0.1,
        "learning rate of those epochs; none: the protocol's",
        gt=0,
        paper=0.1,
        search={"log": [0.01, 0.3]},
    )
    combine: bool = param(
        True, "combine heads across clients; off: every client keeps its own", paper=True
    )


@register(
    "fedpac",
    title="FedPAC",
    paper=(
        "Xu et al., Personalized Federated Learning with Feature Alignment and Classifier"
        " Collaboration, ICLR 2023, https://openreview.net/forum?id=SXZr8aDKia; code:"
        " JianXu95/FedPAC at 5770f4f"
    ),
    year=2023,
    family="prototype",
    needs=("head",),
    sends=(
        "up: the model, class means of features before and after training, class counts, a"
        " variance; down: body, own head, centroids"
    ),
    variants=("combine=false", "lam=0.0"),
    cost=1.8,
)
class FedPAC(FedAvg[HP]):
    """Alternate head and body locally; align features across clients; give each client the convex
    combination of heads that suits it best.

    Before training, client i measures class shares p_ik and mean features mu_ik, h_i = (p_ik
    mu_ik)_k and the variance V_i = (sum_k p_ik E|f|^2_k - |h_i|^2) / n_i. It trains the head, then
    the body with CE(f(x), y) + lam * mean((f(x) - c_y)^2), where c_k are the centroids of the last
    round (from the second round on; a class without one uses the client's own mean). The server
    averages bodies and centroids (by class counts), and head_i <- sum_j a_j head_j over the trained
    heads, where a minimises sum_j a_j^2 V_j + |sum_j a_j (h_i - h_j)|^2 over the simplex; weights
    up to 1e-3 are dropped. A centroid that no participant renews stays; a client without samples
    keeps its head and lends it to no one.

    Differences from published code: docs/methods/fedpac.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        centroids = torch.zeros(fed.params.head_weight.shape, dtype=fed.dtype, device=fed.device)
        known = torch.zeros(fed.classes, dtype=torch.bool, device=fed.device)
        return super().init(fed) | {"centroids": centroids, "known": known}

    def shared_mask(self, fed: Federation) -> Tensor:
        return fed.communicated & fed.params.body

    def round(self, state: State, fed: Federation) -> State:
        models = self.client_params(state, fed)
        received = torch.where(fed.communicated, fed.down(models), models)  # [K, D]
        before = class_statistics(fed, received)
        end = self.train(fed, received, self.goals(state, fed, before.means))
        after = class_statistics(fed, end)

        arrived, counts = fed.up(end), fed.send("up", before.count)
        means, total = fed.send("up", before.means), fed.send("up", after.total)
        variances = fed.send("up", head_variances(before))
        theta = torch.where(self.shared_mask(fed), fed.mean(arrived), state["theta"])
        if self.hp.combine:
            end = self.combine(fed, end, arrived, combination(fed, counts, means, variances))
        kept = self.keep(state, fed, end)
        return {"theta": theta, **kept, **renewed_centroids(state, counts, total)}

    # -- clients -----------------------------------------------------------------------------------

    def goals(self, state: State, fed: Federation, own: Tensor) -> Tensor | None:
        """Send the centroids, from the second round on; return where clients draw the features of
        each class to, which is their own mean for a class without a centroid  [K, classes, F].
        """
        if fed.round == 1:
            return None
        centroids = state["centroids"].where(state["known"][:, None], torch.nan)
        centroids = fed.send("down", centroids)
        return torch.where(centroids.isnan(), own, centroids)

    def train(self, fed: Federation, params: Tensor, goals: Tensor | None) -> Tensor:
        """Train the head alone, then the body alone, drawn to the goals  [K, D]."""
        lr = fed.lr if self.hp.head_lr is None else self.hp.head_lr
        count, aligned = self.hp.head_epochs, dict[str, Any]()
        if self.hp.lam and goals is not None:
            aligned = {"loss": self.aligned_loss, "extras": {"goals": goals}}
        params = fed.train(params, trainable=fed.params.head, epochs=count, lr=lr)
        return fed.train(params, trainable=fed.params.body, first_epoch=count, **aligned)

    def aligned_loss(self, model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        """Return the cross-entropy and the distance between features and the goals of their
        classes.
        """
        features = model.features(batch.x)  # [B, F]
        distance = (features - extras["goals"][batch.y]).square().mean(1).mean()
        return F.cross_entropy(model.head(features), batch.y) + self.hp.lam * distance

    # -- the server --------------------------------------------------------------------------------

    def combine(self, fed: Federation, end: Tensor, arrived: Tensor, weights: Tensor) -> Tensor:
        """Return the trained models with combinations of the heads that arrived  [K, D]."""
        places = [s.place for s in fed.params.tensors(head=True)]
        heads = weights.to(end) @ columns(arrived, places)
        return write_columns(end.clone(), places, heads)

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the shared body and the plain mean of all heads, which pass through the server: a
        newcomer has sent no statistics by which its own combination could be found.
        """
        model, size = state["theta"].clone(), sum(s.size for s in fed.params.tensors(head=True))
        model[-size:] = state["own"][:, -size:].mean(0)  # the head is last in any vector
        return model


def head_variances(before: ClassStatistics) -> Tensor:
    """Return the variance V of every client  [K] float64."""
    shares = before.shares.double()
    scaled = (shares[:, :, None] * before.means).flatten(1)  # [K, classes * F], rows h_i
    energy = (shares * before.square / before.count.clamp(min=1)).sum(1) - scaled.square().sum(1)
    return (energy / before.count.sum(1).clamp(min=1)).clamp(min=0)


def renewed_centroids(state: State, counts: Tensor, total: Tensor) -> State:
    """Return the mean features of the participants' samples by class, if there are any."""
    count = counts.sum(0)  # [classes]
    means = total.sum(0) / count.clamp(min=1)[:, None]
    return {
        "centroids": torch.where((count > 0)[:, None], means, state["centroids"]),
        "known": state["known"] | (count > 0),
    }


def combination(fed: Federation, counts: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """Return how much of each head every client takes  [K, K] float64 on the CPU."""
    shares = counts / counts.sum(1, keepdim=True).clamp(min=1)
    scaled = (shares.double()[:, :, None] * means).flatten(1)  # [K, classes * F], rows h_i
    # the h_i in a basis of their span  [m, K]
    points = torch.linalg.qr(fed.to_host(scaled).T, mode="r").R.numpy()
    spread = fed.to_host(variances).sqrt().numpy()
    lenders = np.flatnonzero(fed.to_host(counts.sum(1)).numpy())
    weights = np.eye(len(counts))
    for client in lenders:
        away = points[:, [client]] - points[:, lenders]
        combined = simplex.least_squares(np.vstack([away, np.diag(spread[lenders])]))
        combined[combined <= SMALL] = 0.0
        weights[client, lenders] = combined / combined.sum()
    return torch.from_numpy(weights)
