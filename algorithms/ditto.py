"""Ditto: a personal model, held near the global one."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from repfl.algorithms.core import partial
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


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
)
class Ditto(Method[HP]):
    """FedAvg, beside which every participant trains a model v_i of its own on the same
    mini-batches, pulled towards the received w.

    Global branch: w_i <- SGD on F_i from w;  w <- sum_i p_i w_i.
    Personal branch: v_i <- v_i - lr (grad F_i(v_i) + lam (v_i - w)), with w as received.

    v_i starts where the global model does and keeps BN statistics of its own; it is what is scored.
    The pull is a part of the gradient, so a recipe's momentum carries it like any other part. The
    paper's choice of lam per client on validation data is not included. PFLlib's rounds are these
    (TsingZ0/PFLlib at d832e76). FL-bench's personal branch also trains on batches of one sample,
    which its global branch leaves out (KarhouTam/FL-bench at 06e658b, src/client/ditto.py:36 and
    47).
    """

    HP = HP

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs + (epochs if self.hp.epochs is None else self.hp.epochs), 0

    def init(self, fed: Federation) -> State:
        return partial.init(fed, fed.exchanged) | {"v": fed.new_model().repeat(fed.N, 1)}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        hp = self.hp
        received = partial.received(state, fed, fed.exchanged)  # [K, D]
        end = fed.train(received).theta
        options: dict[str, Any] = {} if hp.lr is None else {"lr": hp.lr}
        pull = (received, hp.lam) if hp.lam else None
        v = state.pop("v")
        own = fed.train(v[fed.active], pull=pull, epochs=hp.epochs, **options).theta
        return partial.average(state, fed, end, fed.exchanged) | {"v": fed.put(v, own)}

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["v"][fed.active]

    def join(self, state: State, fed: Federation) -> Tensor:
        """A personal model that starts as the global one, and is pulled towards it."""
        start = self.offer(state, fed).expand(fed.N, -1)
        options: dict[str, Any] = {} if self.hp.lr is None else {"lr": self.hp.lr}
        pull = (start, self.hp.lam) if self.hp.lam else None
        return fed.train(start, pull=pull, stream="join", **options).theta
