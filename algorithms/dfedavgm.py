"""DFedAvgM: federated averaging with momentum and without a server."""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import blocks
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register, together


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

    @together
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
    gate={"degree": 2},
)
class DFedAvgM(Method[HP]):
    """Every client trains with momentum and takes x_i <- sum_j W_ij z_j, z_j being what training
    made of its neighbour's x_j.

    The momentum is the protocol's; its buffer starts at zero in every round. `graph=regular` (ring,
    complete) makes W symmetric and doubly stochastic, as the paper asks. In the code behind
    PFedDST's baselines every client instead pulls from random others, before it trains, and trained
    models are scored: the defaults. With `bits` changes travel: x_i <- x_i + sum_j W_ij Q(z_j -
    x_j), for which nobody needs to know another's x. Q rounds to the nearest of 2^bits - 1 levels
    between minus and plus the client's largest change, sent as a number. Mixed models are scored as
    `gossiped`, their average as `consensus`.
    """

    HP = HP
    serverless = True

    def init(self, fed: Federation) -> State:
        return {"w": torch.where(fed.exchanged, fed.new_model(), fed.new_models())}  # [N, D]

    def round(self, state: State, fed: Federation) -> State:
        mixing = fed.topology.mixing(self.hp.graph, self.hp.degree)
        if self.hp.order == "gossip-train":
            return {
                "w": (
                    fed.train(
                        self.scored(fed, fed.gossip(state.pop("w"), mixing)), in_place=True
                    ).theta
                )
            }
        trained = fed.train(state["w"]).theta
        if (bits := self.hp.bits) is None:
            del state["w"]  # everybody's models are large: none more than needed at a time
            return {"w": self.scored(fed, fed.gossip(trained, mixing))}
        x = state.pop("w")
        news = fed.gossip(self.quantised(fed, trained, x, bits), mixing, bits=bits, scalars=1)
        return {"w": self.scored(fed, torch.where(fed.exchanged, x + news, trained))}

    def quantised(self, fed: Federation, trained: Tensor, x: Tensor, bits: int) -> Tensor:
        """Q(z - x), zeros where nothing travels  [N, D]."""
        out, levels = torch.zeros_like(x), 2 ** (bits - 1) - 1
        for rows in blocks(fed.N):
            change = torch.where(fed.exchanged, trained[rows] - x[rows], 0.0)
            step = change.abs().amax(dim=1, keepdim=True) / levels
            out[rows] = torch.where(step > 0, (change / step).round() * step, 0.0)
        return out

    def scored(self, fed: Federation, mixed: Tensor) -> Tensor:
        """Mixed models, once they and their average have been scored  [N, D]."""
        if fed.scoring:
            fed.score("gossiped", mixed)
            fed.score("consensus", mixed.mean(0).expand(fed.N, -1))
        return mixed

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]
