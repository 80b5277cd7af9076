"""FedPAC: features drawn towards shared class centroids, classifiers combined for each client."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core import partial, simplex
from repfl.algorithms.core.alternate import Phase, in_phases
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, entropy_of
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import Params
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.core.partial import Partial
from repfl.algorithms.core.statistics import ClassStatistics, class_statistics

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
)
class FedPAC(Partial[HP]):
    """Alternate head and body locally; align features across clients; give each client the convex
    combination of heads that suits it best.

    Before training, client i measures class shares p_ik and mean features mu_ik, h_i = (p_ik
    mu_ik)_k and the variance V_i = (sum_k p_ik E|f|^2_k - |h_i|^2) / n_i. It trains the head, then
    the body with CE(f(x), y) + lam * mean((f(x) - c_y)^2), where c_k are the centroids of the last
    round (from the second round on; a class without one uses the client's own mean). The server
    averages bodies and centroids (by class counts), and head_i <- sum_j a_j head_j over the trained
    heads, where a minimises sum_j a_j^2 V_j + |sum_j a_j (h_i - h_j)|^2 over the simplex; weights
    up to 1e-3 are dropped.

    The reference code reports models after local training (`pre_agg`); `post_agg` is the new body
    with the combined head. The quadratic form is solved as the sum of squares it is, so the
    reference code's eigenvalue filter (for forms that rounding made indefinite) has no counterpart.
    It measures means and variances on augmented images, this method on the images themselves. A
    centroid that no participant renews stays; a client without samples keeps its head and lends it
    to nobody.

    PFLlib's FedPAC (TsingZ0/PFLlib at d832e76, flcore/servers/serverpac.py) solves for the weights
    in the order in which clients were selected (42 to 44) and uses them in a shuffled one (129,
    153 to 164), so they reach other clients. Heads are replaced one by one (148, 164), so a later
    combination reads combined heads; dropped weights are not made up for (242); centroids do not
    count samples (178 to 193).
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs, self.hp.head_epochs

    def init(self, fed: Federation) -> State:
        centroids = torch.zeros(fed.layout.head_weight.shape, dtype=fed.dtype, device=fed.device)
        known = torch.zeros(fed.classes, dtype=torch.bool, device=fed.device)
        return super().init(fed) | {"centroids": centroids, "known": known}

    def averaged(self, fed: Federation) -> Tensor:
        return fed.exchanged_body

    def round(self, state: State, fed: Federation) -> State:
        start = self.personal(state, fed)  # [K, D]
        fed.down(start)
        fed.numbers("down", state["centroids"].numel() if fed.round > 1 else 0)
        before = class_statistics(fed, start)
        end = in_phases(fed, start, self.phases(state, fed, before.means))
        after = class_statistics(fed, end)
        fed.numbers("up", 2 * after.total[0].numel() + fed.classes + 1)
        fed.up(end)
        heads = end.clone()
        if self.hp.combine:
            heads[:, fed.layout.head] = combination(before).to(end) @ end[:, fed.layout.head]
        mean = fed.mean(end)
        theta = torch.where(self.shared(fed), mean, state["theta"])
        return {
            "theta": theta,
            **partial.kept(state, fed, heads, self.shared(fed)),
            **renewed(state, after),
        }

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The shared body and the plain mean of all heads, which pass through the server: a
        newcomer has sent no statistics by which its own combination could be found.
        """
        model, head = state["theta"].clone(), fed.layout.head
        model[head] = state["own"][:, head[~self.shared(fed)]].mean(0)
        return model

    def phases(self, state: State, fed: Federation, own: Tensor) -> list[Phase]:
        """Head alone, then body alone, drawn towards the centroids."""
        head, lr = fed.layout.head, {} if self.hp.head_lr is None else {"lr": self.hp.head_lr}
        aligned = {}
        if self.hp.lam and fed.round > 1:
            goals = torch.where(state["known"][:, None], state["centroids"], own)  # [K, classes, F]
            aligned = {"objective": self.loss, "extras": {"goals": goals}}
        return [
            Phase(head, self.hp.head_epochs, lr),
            Phase(fed.layout.learnable & ~head, fed.protocol.epochs, aligned),
        ]

    def loss(self, local: Chunk, batch: Batch, params: Params) -> Tensor:
        """Cross-entropy and the distance between features and the centroids of their
        classes  [K].
        """
        features = local.model.features(params, batch.x, batch.mode)  # [K, B, F]
        goals = local.extras["goals"].gather(1, batch.y[:, :, None].expand_as(features))
        aligned = batch.mean((features - goals).square().mean(2))
        return entropy_of(local.model.head(params, features), batch) + self.hp.lam * aligned


def renewed(state: State, after: ClassStatistics) -> State:
    """Centroids: mean features over all samples of the participants, class by class."""
    counts = after.count.sum(0)  # [classes]
    means = after.total.sum(0) / counts.clamp(min=1)[:, None]
    return {
        "centroids": torch.where((counts > 0)[:, None], means, state["centroids"]),
        "known": state["known"] | (counts > 0),
    }


def combination(before: ClassStatistics) -> Tensor:
    """Row i: how much of whose head client i takes  [K, K] float64 on the CPU."""
    held = before.count.sum(1).cpu().numpy()  # [K]
    shares, lenders = before.shares.double(), np.flatnonzero(held)
    weights = np.eye(len(held))
    if not len(lenders):
        return torch.from_numpy(weights)
    scaled = (shares[:, :, None] * before.means).flatten(1)  # [K, classes * F], rows h_i
    energy = (shares * before.square / before.count.clamp(min=1)).sum(1) - scaled.square().sum(1)
    spread = (
        (energy / before.count.sum(1).clamp(min=1)).clamp(min=0).sqrt().cpu().numpy()
    )  # [K], square roots of V
    places = (
        torch.linalg.qr(scaled.T, mode="r").R.cpu().numpy()
    )  # [m, K], the h_i in a basis of their span
    for client in lenders:
        columns = np.vstack([places[:, [client]] - places[:, lenders], np.diag(spread[lenders])])
        found = simplex.least_squares(columns)
        found[found <= SMALL] = 0.0
        weights[client, lenders] = found / found.sum()
    return torch.from_numpy(weights)
