"""IFCA: several global models; every client trains the one that fits its data best."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.local_training import recalibrate_batch_norm
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg
from repfl.algorithms.math.client_losses import mean_losses


@hyperparameters
class HP:
    """The clusters."""

    clusters: int = param(2, "number of models", ge=1, search={"one of": [2, 3, 4]})


@register(
    "ifca",
    title="IFCA",
    paper=(
        "Ghosh et al., An Efficient Framework for Clustered Federated Learning, NeurIPS 2020, arXiv"
        " 2006.04088; code: jichan3751/ifca at 61e44b8"
    ),
    year=2020,
    family="clustered",
    sends="all models down; one model and the number of its cluster up",
    variants=("clusters=3",),
    cost=1.7,
)
class IFCA(FedAvg[HP]):
    """Client i trains the model with the least mean loss on its training samples; each model is
    averaged over the participants that chose it:

        j_i = argmin_j F_i(w_j);   w_i <- E epochs of SGD from w_{j_i};
        w_j <- sum of p_i w_i over i with j_i = j, the p_i scaled to sum to one.

    A model that nobody chose stays. Losses are taken in evaluation mode, and every client chooses
    again before it is scored. The first model starts as those of other methods do, each further one
    at a draw of its own. Differences from published code: docs/methods/ifca.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        others = [fed.new_model(j) for j in range(1, self.hp.clusters)]
        models = torch.stack([fed.new_model(), *others])
        return super().init(fed) | {"theta": models}  # [clusters, D]

    def round(self, state: State, fed: Federation) -> State:
        received = [self.merge(state, fed, fed.down(theta)) for theta in state["theta"]]
        start, chosen = self.best(fed, torch.stack(received))
        end = fed.train(start)
        chosen = fed.send("up", chosen.to(fed.dtype)[:, None])[:, 0]  # the cluster's number
        theta = self.aggregate(fed, state["theta"], fed.up(end), chosen.long())
        return self.keep(state, fed, end) | {"theta": theta}

    def aggregate(self, fed: Federation, theta: Tensor, uploaded: Tensor, chosen: Tensor) -> Tensor:
        """Return the models, each averaged over the uploads [K, D] of those that chose it
        [clusters, D].
        """
        member = F.one_hot(chosen, self.hp.clusters).to(fed.dtype) * fed.weights[:, None]
        mass = member.sum(0)[:, None]  # [clusters, 1]
        means = member.T @ uploaded / torch.where(mass > 0, mass, 1.0)
        return torch.where((mass > 0) & fed.communicated, means, theta)

    def best(self, fed: Federation, models: Tensor) -> tuple[Tensor, Tensor]:
        """Return each client's best of several models, and which one it is  [clusters, K, D] ->
        [K, D], [K].
        """
        losses = [mean_losses(fed, params) for params in models]
        chosen = torch.stack(losses).argmin(0)  # [K]
        return models[chosen, torch.arange(fed.K, device=fed.device)], chosen

    def client_params(self, state: State, fed: Federation) -> Tensor:
        parts = [self.merge(state, fed, theta.expand(fed.K, -1)) for theta in state["theta"]]
        return self.best(fed, torch.stack(parts))[0]

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Return the best of the models as it is."""
        models = state["theta"][:, None].expand(-1, fed.N, -1)
        return recalibrate_batch_norm(fed, self.best(fed, models)[0])
