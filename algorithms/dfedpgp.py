"""DFedPGP: bodies spread by push-sum over a directed graph, heads stay."""

from __future__ import annotations

import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, cross_entropy_eval


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
        1,
        "epochs on the head, before the body's",
        ge=0,
        paper="launch script: 1; code: 2",
        search={"whole": [1, 3]},
    )
    body_epochs: int | None = param(
        None, "epochs on the body; none: the recipe's", ge=0, paper="launch script: 5; code: 2"
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
    gate_hp={"degree": 2},
)
class DFedPGP(Method[HP]):
    """Client i holds a body u_i with a mass mu_i (1 at first), the body z_i = u_i / mu_i that it
    computes with, and a head v_i.

    v_i <- SGD with z_i frozen;  u_i <- u_i - lr g(z_i) with v_i frozen, mu_i unchanged;
    u <- P u, mu <- P mu, where the column-stochastic P splits what a client has equally among
    itself and those that it sends to.

    The state holds z and mu. A step of u is a step of z with learning rate lr / mu, and gossip
    weighs z_j by P_ij mu_j / sum_l P_il mu_l. Batch-norm statistics stay as they are while the head
    trains. Mixed bodies with each client's own head are scored as `gossiped`. Differences from
    published code: docs/methods/dfedpgp.md.
    """

    HP = HP
    decentralised = True

    def init(self, fed: Federation) -> State:
        return {
            "w": torch.where(self.shared_mask(fed), fed.new_model(), fed.new_models()),  # [N, D]
            "mu": torch.ones(fed.N, dtype=torch.float64, device=fed.device),  # [N]
        }

    def shared_mask(self, fed: Federation) -> Tensor:
        """Return the mask of the body  [D] bool."""
        return fed.communicated & fed.params.body

    def round(self, state: State, fed: Federation) -> State:
        w, mu = state.pop("w"), state["mu"]
        if self.hp.order == "gossip-train":
            w, mu = self.gossip(fed, w, mu)
        w = self.train_head(fed, w)
        w = self.train_body(fed, w, mu)
        if self.hp.order == "train-gossip":
            w, mu = self.gossip(fed, w, mu)
        return {"w": w, "mu": mu}

    def gossip(self, fed: Federation, w: Tensor, mu: Tensor) -> tuple[Tensor, Tensor]:
        """Push bodies and masses  [N, D], [N]."""
        graph = fed.topology.graph(self.hp.graph, self.hp.degree)
        if self.hp.push_sum:
            received = fed.send_peers(mu, graph, floats=1)
            weights, mu = topology.push_sum(topology.column_stochastic(graph), received)
        else:
            weights = topology.row_stochastic(graph)
        mixed = fed.gossip(w, weights, self.shared_mask(fed))
        fed.score("gossiped", mixed)
        fed.log("mass/least", mu.min())
        return mixed, mu

    def train_head(self, fed: Federation, w: Tensor) -> Tensor:
        hp = self.hp
        lr = fed.lr if hp.head_lr is None else fed.lr * hp.head_lr / fed.protocol.lr
        head = fed.params.head
        return fed.train(w, loss=cross_entropy_eval, trainable=head, epochs=hp.head_epochs, lr=lr)

    def train_body(self, fed: Federation, w: Tensor, mu: Tensor) -> Tensor:
        """Train z with learning rate lr / mu  [N, D]."""

        def step(client: Client, batch: Batch) -> None:
            client.update(client.grad(batch), scale=client.extras["scale"])

        return fed.train(
            w,
            step=step,
            extras={"scale": mu.reciprocal().to(w.dtype)},
            trainable=fed.params.learnable & fed.params.body,
            epochs=self.hp.body_epochs,
            first_epoch=self.hp.head_epochs,
        )

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the mean of the bodies weighted by their masses, which push-sum tends to, with an
        initial head.
        """
        share = (state["mu"] / state["mu"].sum()).to(fed.dtype)
        return torch.where(self.shared_mask(fed), share @ state["w"], fed.new_model())
