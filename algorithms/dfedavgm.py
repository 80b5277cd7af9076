"""DFedAvgM: federated averaging with momentum and without a server."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register, validator
from repfl.algorithms.engine.params import row_slices


@hyperparameters
class HP:
    """The graph, the order of training and gossip, and the width of messages."""

    degree: int = param(10, "neighbours per client", ge=0, paper=10, search={"whole": [2, 10]})
    graph: topology.Graph = param(
        "pull", "who hears whom", paper="text: undirected; Dis-PFL's code: pull"
    )
    order: topology.Order = param(
        "gossip-train",
        "mix before or after training",
        paper="text: train-gossip; Dis-PFL's code: gossip-train",
        search={"one of": ["gossip-train", "train-gossip"]},
    )
    bits: int | None = param(
        None,
        "width of a quantised change, which then is what travels; none: whole models in float32",
        ge=2,
        le=31,
    )

    @validator
    def _quantises_changes(self) -> Self:
        if self.bits is not None and self.order == "gossip-train":
            raise ValueError(
                "bits needs order = train-gossip: what is quantised is the change since the last"
                " gossip"
            )
        return self


@register(
    "dfedavgm",
    title="DFedAvgM",
    paper="Sun, Li and Wang, Decentralized Federated Averaging, TPAMI 2022, arXiv 2104.11375",
    year=2022,
    family="decentralised",
    needs=("p2p",),
    sends="each client's model to every client that hears it",
    variants=("graph=regular, order=train-gossip", "graph=regular, order=train-gossip, bits=8"),
    gate_hp={"degree": 2},
)
class DFedAvgM(Method[HP]):
    """Every client trains with momentum, then averages with its neighbours; there is no server.

    z_i <- E epochs of SGD with momentum from x_i;  x_i <- sum_j W_ij z_j. With `bits`, quantised
    changes are sent instead of models: x_i <- x_i + sum_j W_ij Q(z_j - x_j). Q rounds to the
    nearest of 2^bits - 1 levels between minus and plus the client's largest change.

    The momentum is the protocol's and starts at zero in every round. Mixed models are scored as
    `gossiped`, their average as `consensus`. Differences from published code:
    docs/methods/dfedavgm.md.
    """

    HP = HP
    decentralised = True

    def init(self, fed: Federation) -> State:
        return {"w": torch.where(fed.communicated, fed.new_model(), fed.new_models())}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        mixing = fed.topology.mixing(self.hp.graph, self.hp.degree)
        if self.hp.order == "gossip-train":
            mixed = fed.gossip(state.pop("w"), mixing)
            self.score_mixed(fed, mixed)
            return {"w": fed.train(mixed)}
        x = state.pop("w")
        trained = fed.train(x)
        if self.hp.bits is None:
            del x  # two copies of all models are enough
            mixed = fed.gossip(trained, mixing)
        else:
            change = self.quantise(fed, trained, x, self.hp.bits)
            news = fed.gossip(change, mixing, bits=self.hp.bits, scalars=1)
            mixed = torch.where(fed.communicated, x + news, trained)
        self.score_mixed(fed, mixed)
        return {"w": mixed}

    def quantise(self, fed: Federation, trained: Tensor, x: Tensor, bits: int) -> Tensor:
        """Return Q(z - x), with zeros in the entries that are not communicated  [N, D]."""
        out, levels = torch.zeros_like(x), 2 ** (bits - 1) - 1
        for rows in row_slices(fed.N):
            change = torch.where(fed.communicated, trained[rows] - x[rows], 0.0)
            step = change.abs().amax(dim=1, keepdim=True) / levels
            out[rows] = torch.where(step > 0, (change / step).round() * step, 0.0)
        return out

    def score_mixed(self, fed: Federation, mixed: Tensor) -> None:
        """Score mixed models [N, D] and their average."""
        fed.score("gossiped", mixed)
        fed.score("consensus", mixed.mean(0).expand(fed.N, -1))

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
