"""FedAMP: the server sends every client a mixture of models made for it."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


@hyperparameters
class HP:
    """How models attract one another."""

    alpha: float = param(1.0, "step of the attention", gt=0, search={"log": [0.01, 1]})
    sigma: float = param(
        1.0, "scale of squared distances between models", gt=0, search={"log": [0.1, 100]}
    )
    lam: float = param(
        1.0, "pull towards the received mixture is lam / alpha", ge=0, search={"log": [0.01, 10]}
    )


@register(
    "fedamp",
    title="FedAMP",
    paper=(
        "Huang et al., Personalized Cross-Silo Federated Learning on Non-IID Data, AAAI 2021, arXiv"
        " 2007.03797"
    ),
    year=2021,
    family="clustered",
    sends="the model up; a mixture for each client down",
    cost=1.1,
    version=2,
)
class FedAMP(Method[HP]):
    """u_i = (1 - sum_j a_ij) w_i + sum_j a_ij w_j, with a_ij = alpha/sigma exp(-|w_i - w_j|^2 /
    sigma) over all other clients that have uploaded and a norm over learnable entries;
    w_i <- SGD on F_i + lam / (2 alpha) |w_i - u_i|^2, from w_i.

    Differences from published code: docs/methods/fedamp.md.
    """

    HP = HP
    server_rows = ("uploaded",)

    def init(self, fed: Federation) -> State:
        models = fed.client_rows(fed.first_models())  # [N, D]
        seen = torch.zeros(fed.N, dtype=torch.bool, device=fed.device)
        return {"w": models, "uploaded": models.clone(), "seen": seen}

    def round(self, state: State, fed: Federation) -> State:
        mixed = fed.down(self.mixture(state, fed))  # [K, D], another for each client
        params = self.train(fed, state["w"][fed.active], mixed)
        uploaded = fed.scatter_rows(state["uploaded"], fed.up(params))
        models = fed.scatter_rows(state["w"], params)
        seen = state["seen"].index_fill(0, fed.active, True)
        return {"w": models, "uploaded": uploaded, "seen": seen}

    def mixture(self, state: State, fed: Federation) -> Tensor:
        """Return what the server sends to each active client  [K, D]."""
        uploaded, active = state["uploaded"], fed.active
        own, points = uploaded[active], torch.where(fed.params.learnable, uploaded, 0)  # [N, D]
        distances = torch.cdist(points[active], points, compute_mode="donot_use_mm_for_euclid_dist")
        squares = distances.square()  # [K, N]
        attention = self.hp.alpha / self.hp.sigma * torch.exp(-squares / self.hp.sigma)  # [K, N]
        attention = attention * state["seen"] * (active[:, None] != fed.all_clients)
        return attention @ uploaded + (1 - attention.sum(1, keepdim=True)) * own

    def train(self, fed: Federation, params: Tensor, mixed: Tensor) -> Tensor:
        """Train the active clients' models, pulled towards their mixtures  [K, D]."""
        return fed.train(params, pull=(mixed, self.hp.lam / self.hp.alpha))

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
