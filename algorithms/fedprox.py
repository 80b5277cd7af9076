"""FedProx: local training is pulled back to the model that it started from."""

from __future__ import annotations

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """How close local models stay to the global one."""

    mu: float = param(
        0.01, "strength of the pull towards the received model", ge=0, search={"log": [0.001, 1]}
    )


@register(
    "fedprox",
    title="FedProx",
    paper=(
        "Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020, arXiv 1812.06127"
    ),
    year=2020,
    family="global",
    sends="as FedAvg: the whole model down and up",
)
class FedProx(FedAvg[HP]):
    """w_i <- w_i - lr (grad F_i(w_i) + mu (w_i - w)), from w as received;  w <- sum_i p_i w_i.

    The pull is a part of the gradient, so a recipe's momentum carries it like any other part.
    Differences from published code: docs/methods/fedprox.md.
    """

    HP = HP

    def local_update(self, fed: Federation, params: Tensor) -> Tensor:
        """Train the active clients' models, pulled towards where they start  [K, D]."""
        return fed.train(params, pull=(params, self.hp.mu))
