"""FedFomo: every client receives models of some others and mixes those that help it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.math.client_losses import mean_losses

EPSILON = 1e-5
"""Added to the distance of two models, as in PFLlib and FL-bench."""
TIE = 1e-12
"""Times a draw in [0, 1): orders equal affinities."""


@hyperparameters
class HP:
    """Who is received."""

    models: int = param(5, "models that a client receives", ge=1, search={"one of": [3, 5, 10]})


@register(
    "fedfomo",
    title="FedFomo",
    paper=(
        "Zhang et al., Personalized Federated Learning with First Order Model Optimization, ICLR"
        " 2021, arXiv 2012.08565"
    ),
    year=2021,
    family="mixture",
    sends="some other clients' models down; the client's own and weights for those received up",
    gate_hp={"models": 2},
    cost=1.4,
    version=2,
)
class FedFomo(Method[HP]):
    """Client i keeps a model w_i. It receives the last uploads w_n of the M other clients with the
    largest affinity P_in, weighs them by how much lower their loss is, and trains the mixture:

        a_n = (L_i(w_i) - L_i(w_n)) / |w_n - w_i|;   P_in <- P_in + a_n,
        w_i <- w_i + sum_n max(a_n, 0) (w_n - w_i) / sum_n max(a_n, 0);   w_i <- SGD on F_i.

    L_i is the loss on client i's validation samples or, without any, on its training samples; the
    norm is over learnable entries. Equal affinities, as at the start, are ordered at random.
    Differences from published code: docs/methods/fedfomo.md.
    """

    HP = HP
    uses_validation = True
    server_rows = ("uploaded", "affinity")

    def init(self, fed: Federation) -> State:
        models = fed.client_rows(fed.first_models())  # [N, D]
        seen = torch.zeros(fed.N, dtype=torch.bool, device=fed.device)
        affinity = torch.zeros(fed.N, fed.N, dtype=fed.dtype, device=fed.device)
        return {"w": models, "uploaded": models.clone(), "seen": seen, "affinity": affinity}

    def round(self, state: State, fed: Federation) -> State:
        own = state["w"][fed.active]  # [K, D]
        who, valid = self.chosen(state, fed)  # [K, M] each
        before, received, gains = self.losses(fed, own), [], []
        for n, v in zip(who.T, valid.T, strict=True):
            sent = v[:, None] & fed.communicated
            received.append(fed.down(state["uploaded"][n], sent).where(sent, own))
            apart = torch.where(fed.params.learnable, received[-1] - own, 0)  # [K, D]
            gain = (before - self.losses(fed, received[-1])) / (apart.norm(dim=1) + EPSILON)
            gains.append(torch.where(v, gain, 0.0))
        weights = torch.stack(gains).clamp(min=0)  # [M, K]
        shares = weights / weights.sum(0).clamp(min=torch.finfo(fed.dtype).tiny)
        moves = shares[:, :, None] * (torch.stack(received) - own)  # [M, K, D]
        end = fed.train(own + moves.sum(0))

        arrived = fed.send("up", torch.stack(gains, 1))  # [K, M]
        affinity = state["affinity"][fed.active].scatter_add(1, who, arrived)
        return {
            "w": fed.scatter_rows(state["w"], end),
            "uploaded": fed.scatter_rows(state["uploaded"], fed.up(end)),
            "seen": state["seen"].index_fill(0, fed.active, True),
            "affinity": fed.scatter_rows(state["affinity"], affinity),
        }

    def chosen(self, state: State, fed: Federation) -> tuple[Tensor, Tensor]:
        """Return whose models each active client receives, and whether they exist  [K, M] each."""
        draws = np.stack([fed.rng("order", client).random(fed.N) for client in fed.active_ids])
        ties = torch.from_numpy(draws).to(fed.device) * TIE
        others = state["seen"] & (fed.active[:, None] != fed.all_clients)  # [K, N]
        ranked = (state["affinity"][fed.active].double() + ties).where(others, -torch.inf)
        best = ranked.topk(min(self.hp.models, fed.N))
        return best.indices, best.values.isfinite()

    def losses(self, fed: Federation, params: Tensor) -> Tensor:
        """Return the mean loss of each model on validation or training samples  [K]."""
        means = torch.zeros(fed.K, dtype=fed.dtype, device=fed.device)
        held = [len(fed.data.val[client]) > 0 for client in fed.active_ids]
        for split, uses in (("val", True), ("train", False)):
            if rows := [k for k, has in enumerate(held) if has is uses]:
                of = [fed.active_ids[k] for k in rows]
                means[rows] = mean_losses(fed, params[rows], split=split, of=of)
        return means

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
