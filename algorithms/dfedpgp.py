"""DFedPGP: bodies spread by push-sum over a directed graph, heads stay."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.alternate import Phase, in_phases
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, still_cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register


@hyperparameters
class HP:
    """The graph, its weights, and the two phases of training."""

    degree: int = param(10, "neighbours per client", ge=0, paper=10, search={"whole": [2, 10]})
    graph: topology.Graph = param("push", "who hears whom", paper="text: push; code: pull")
    push_sum: bool = param(
        True,
        "carry push-sum masses; off: plain means",
        paper="text: on; code: off, with graph = pull",
    )
    order: topology.Order = param(
        "gossip-train",
        "mix before or after training",
        paper="text: train-gossip; code: gossip-train",
    )
    head_epochs: int = param(
        1, "epochs on the head, before the body's", ge=0, paper="code: 1", search={"whole": [1, 3]}
    )
    body_epochs: int | None = param(
        None, "epochs on the body; none: the recipe's", ge=0, paper="code: 5"
    )
    head_lr: float | None = param(
        None,
        "the head's learning rate at first, decaying with the recipe's; none: that",
        gt=0,
        paper="code: 0.001",
    )


@register(
    "dfedpgp",
    title="DFedPGP",
    paper=(
        "Liu et al., Decentralized Directed Collaboration for Personalized Federated Learning,"
        " CVPR 2024, arXiv 2405.17876; code read in a copy: SafeAI-Wshuai/pDFL at 2a92034"
    ),
    year=2024,
    family="decentralised",
    needs=("p2p", "head"),
    sends="each client's body and one number to every client that hears it",
    variants=("push_sum=false, graph=pull", "order=train-gossip", "head_lr=0.001"),
    cost=1.3,
    gate={"degree": 2},
)
class DFedPGP(Method[HP]):
    """Client i holds a body u_i with a mass mu_i (1 at first), the body z_i = u_i / mu_i that it
    computes with, and a head v_i.

    A round trains v_i with z_i frozen, then u_i with v_i frozen, gradients and weight decay taken
    at z_i: u <- u - lr g(z), mu unchanged. Gossip splits u_i and mu_i equally between the client
    and those it sends to: u <- P u, mu <- P mu with P column-stochastic. The state keeps z and mu:
    a step of u is a step of z with learning rate lr / mu, and gossip weighs z_j by P_ij mu_j /
    sum_l P_il mu_l. The code has no masses: clients pull from random others and take plain means
    (`push_sum=false`, `graph=pull`). It mixes before training; that differs from mixing afterwards
    only by which round's graph is used. It reports mixed bodies with own heads, scored as
    `gossiped`. BN statistics rest while the head trains, since the body does (the code would move
    them; its models have none).
    """

    HP = HP
    serverless = True

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs if self.hp.body_epochs is None else self.hp.body_epochs, self.hp.head_epochs

    def init(self, fed: Federation) -> State:
        w = torch.where(self.shared(fed), fed.new_model(), fed.new_models())
        return {
            "w": w,
            "mu": torch.ones(fed.N, dtype=torch.float64, device=fed.device),
        }  # [N, D] with bodies z, [N]

    def shared(self, fed: Federation) -> Tensor:
        """The body  [D] bool."""
        return fed.exchanged_body

    def round(self, state: State, fed: Federation) -> State:
        mu = state["mu"]
        if self.hp.order == "gossip-train":
            w, mu = self.gossip(fed, state.pop("w"), mu)
            return {"w": self.train(fed, w, mu), "mu": mu}
        trained = self.train(fed, state.pop("w"), mu)
        w, mu = self.gossip(fed, trained, mu)
        return {"w": w, "mu": mu}

    def gossip(self, fed: Federation, w: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        """Push bodies and masses  [N, D], [N]."""
        graph = fed.topology.graph(self.hp.graph, self.hp.degree)
        if self.hp.push_sum:
            weights, mu = topology.push_sum(topology.column_stochastic(graph), mu)
        else:
            weights = topology.row_stochastic(graph)
        mixed = fed.gossip(w, weights, self.shared(fed), scalars=int(self.hp.push_sum))
        fed.score("gossiped", mixed)
        fed.note("mass/least", mu.min())
        return mixed, mu

    def train(self, fed: Federation, w: Tensor, mu: Tensor) -> Tensor:
        """Head, then body, overwriting w  [N, D]."""
        hp, head = self.hp, fed.layout.head
        rate = fed.sgd.lr if hp.head_lr is None else fed.sgd.lr * hp.head_lr / fed.protocol.lr
        in_phases(
            fed,
            w,
            [
                Phase(
                    head,
                    hp.head_epochs,
                    {"objective": still_cross_entropy, "lr": rate, "in_place": True},
                )
            ],
        )

        def push(local: Chunk, batch: Batch) -> None:
            local.sgd(local.grad(batch), scale=local.extras["pace"])

        pace = mu.reciprocal().to(w.dtype)
        body = fed.layout.learnable & ~head
        fed.loop(
            push,
            {"w": w},
            extras={"pace": pace},
            trainable=body,
            epochs=hp.body_epochs,
            first_epoch=hp.head_epochs,
            in_place=True,
            same="push",
        )
        fed.trained = w
        return w

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The mean of the bodies, each with its mass: what push-sum tends to. Heads stay with their
        clients, so a newcomer's is initial.
        """
        share = (state["mu"] / state["mu"].sum()).to(fed.dtype)
        return torch.where(self.shared(fed), share @ state["w"], fed.new_model())
