"""Ditto: a personal model, held near the global one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State, hyperparameters, param, register
from repfl.algorithms.fedavg import FedAvg


@hyperparameters
class HP:
    """How close personal models stay, and how long they train."""

    lam: float = param(
        1.0,
        "strength of the pull towards the received global model",
        ge=0,
        paper="0.1, 1 or 2",
        search={"log": [0.05, 5]},
    )
    epochs: int | None = param(
        None,
        "epochs of the personal model; none: as many as a local round has",
        ge=0,
        paper="same as the global branch",
    )
    lr: float | None = param(
        None,
        "learning rate of the personal model; none: the protocol's",
        gt=0,
        paper="same as the global branch",
    )


@register(
    "ditto",
    title="Ditto",
    paper=(
        "Li et al., Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021,"
        " arXiv 2012.04221; code: litian96/ditto at 26d9b29"
    ),
    year=2021,
    family="regularised",
    sends="as FedAvg: the whole model down and up; personal models stay",
    variants=("lam=0.1", "lam=2.0"),
    cost=1.9,
)
class Ditto(FedAvg[HP]):
    """FedAvg, beside which every participant trains a model v_i of its own on the same
    mini-batches, pulled towards the received w.

    Global branch: w_i <- SGD on F_i from w;  w <- sum_i p_i w_i.
    Personal branch: v_i <- v_i - lr (grad F_i(v_i) + lam (v_i - w)), with w as received.

    v_i starts where the global model does and keeps BN statistics of its own; it is what is scored.
    The pull is a part of the gradient, so a recipe's momentum carries it like any other part.
    Differences from published code: docs/methods/ditto.md.
    """

    HP = HP

    def init(self, fed: Federation) -> State:
        return super().init(fed) | {"v": fed.client_rows(fed.new_model()[None])}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        received = self.download(state, fed)  # [K, D]
        end = fed.train(received)
        v = state.pop("v")
        personal = self.train_personal(fed, v[fed.active], received, epochs=self.hp.epochs)
        new = self.upload_and_average(state, fed, end)
        return new | {"v": fed.scatter_rows(v, personal)}

    def train_personal(
        self, fed: Federation, start: Tensor, anchor: Tensor, **options: Any
    ) -> Tensor:
        """Train personal models, pulled towards the anchor  [K, D]."""
        pull = (anchor, self.hp.lam) if self.hp.lam else None
        lr = fed.lr if self.hp.lr is None else self.hp.lr
        return fed.train(start, pull=pull, lr=lr, **options)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["v"][fed.active]

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train a personal model that starts as the global one and is pulled towards it."""
        start = self.newcomer_init(state, fed).expand(fed.N, -1)
        return self.train_personal(fed, start, start, stream="join")
