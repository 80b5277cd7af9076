"""FedDyn: a linear term corrects every client's loss, so that local optima agree with the global
one.
"""

from __future__ import annotations

import torch

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """The strength of the regulariser."""

    alpha: float = param(
        0.01,
        "strength of the pull and of the correction",
        gt=0,
        paper="code 0.01",
        search={"log": [0.001, 0.3]},
    )


@register(
    "feddyn",
    title="FedDyn",
    paper=(
        "Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021, arXiv"
        " 2111.04263; code: alpemreacar/FedDyn at 48a19fa"
    ),
    year=2021,
    family="global",
    sends="as FedAvg: the whole model down and up; corrections stay",
    cost=1.1,
)
class FedDyn(FedAvg[HP]):
    """w_i <- SGD on F_i(w_i) + alpha <h_i, w_i> + alpha / 2 |w_i - w|^2 from w as received, where
    h_i sums up how far client i has moved (-1 / alpha times the paper's gradient):

        h_i <- h_i + w_i - w;   h <- h + (1/N) sum_i (w_i - w);   w <- sum_i p_i w_i + h.

    Running statistics have no correction and are averaged as in FedAvg. Both terms are a part of
    the gradient, so a recipe's momentum carries them. Differences from published code:
    docs/methods/feddyn.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        zeros = torch.zeros_like(fed.new_model())
        return super().init(fed) | {"h": zeros, "h_own": zeros.repeat(fed.N, 1)}  # [D], [N, D]

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)  # [K, D]
        own = state["h_own"][fed.active]
        # the gradient of both terms is alpha (w_i - (w - h_i))
        end = fed.train(received, pull=(received - own, self.hp.alpha))

        learnable, theta = fed.params.learnable, state["theta"]
        moved = torch.where(learnable, end - received, 0.0)
        h_own = fed.scatter_rows(state["h_own"], own + moved)
        sent = fed.up(end)  # [K, D]
        h = state["h"] + torch.where(learnable, sent - theta, 0.0).sum(0) / fed.N
        theta = torch.where(fed.communicated, fed.mean(sent) + h, theta)
        return self.keep(state, fed, end) | {"theta": theta, "h": h, "h_own": h_own}
