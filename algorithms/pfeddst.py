"""PFedDST: every client chooses its peers by a score of loss, header and recency."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.client import cross_entropy_eval
from repfl.algorithms.engine.client_data import to_device
from repfl.algorithms.engine.params import columns, row_slices
from repfl.algorithms.math.client_losses import mean_losses

COSINE_DECIMALS = 6
"""Cosines are rounded: headers are equal at first, and rounding errors must not choose peers."""


@hyperparameters
class HP:
    """Who is chosen, and how the two parts train."""

    degree: int = param(
        10, "peers k that a client chooses", ge=0, paper=10, search={"whole": [2, 10]}
    )
    selection: Literal["score", "header", "random"] = param(
        "score", "by S, by its header term alone, or at random", paper="Fig. 2: random, header"
    )
    alpha: float = param(
        0.1,
        "weight of the loss on a peer's data",
        ge=0,
        paper="not stated",
        search={"log": [0.01, 1]},
    )
    recency: float | None = param(
        0.3,
        "rate lambda at which a peer becomes attractive again; none: at once",
        ge=0,
        paper="not stated",
        search={"log": [0.03, 3]},
    )
    cost: float = param(1.0, "the constant c of the score", paper="not stated")
    header_term: Literal["distance", "literal"] = param(
        "distance", "s_d: 1 - cosine, or the cosine itself", paper="text: distance; eq. 7: cosine"
    )
    unseen: Literal["one", "literal"] = param(
        "one", "s_p of a peer never chosen: 1, or as if last chosen in round 0", paper="not stated"
    )
    probe: int = param(
        128, "samples of a peer that a loss is taken on, at most", ge=1, paper="not stated"
    )
    refresh: Literal["contacted", "all"] = param(
        "contacted", "whose losses are renewed after a round", paper="not stated"
    )
    head_epochs: int = param(1, "epochs on the header, after the extractor's", ge=0, paper=1)
    head_lr: float | None = param(
        None,
        "the header's learning rate at first, decaying with the recipe's; none: that",
        gt=0,
        paper=0.1,
    )


def relative_cost(hp: HP, epochs: float, samples: float) -> float:
    """The header's epochs and the probes of peers' losses are forward passes: a third each."""
    probes = hp.selection == "score" and hp.alpha > 0
    forward = hp.head_epochs + probes * hp.degree * min(hp.probe, samples) / samples
    return 1 + forward / 3 / epochs


@register(
    "pfeddst",
    title="PFedDST",
    paper=(
        "PFedDST: Personalized Federated Learning with Decentralized Selection Training, 2025,"
        " arXiv 2502.07750"
    ),
    year=2025,
    family="decentralised",
    needs=("epochs", "p2p", "head"),
    sends=(
        "extractors of the chosen peers; every client's header to all others; to probe a loss, the"
        " model to the peer and a number back"
    ),
    variants=(
        "selection=header",
        "selection=random",
        "header_term=literal",
        "refresh=all",
        "head_lr=0.001",
    ),
    cost=relative_cost,
    gate_hp={"degree": 2},
)
class PFedDST(Method[HP]):
    """Client i has an extractor e_i, a header h_i, its loss l_i[j] on peer j's data, and the round
    r_i[j] in which it last chose j.

    S(i, j) = s_p (alpha s_l - s_d + c), with s_l = l_i[j], s_d = 1 - cos(h_i, h_j), and
    s_p = 1 - exp(-lambda (t - r_i[j])), or 1 for a peer that was never chosen.
    Client i chooses the k peers of highest S (ties at random) and sets r_i[j] = t;
    e_i <- (e_i + sum_j e_j) / (k + 1);  e_i <- SGD with h_i frozen;  h_i <- SGD with e_i frozen;
    l_i[j] is measured again on the data of the peers just met.

    Batch norm uses its running statistics while the header trains. All clients start from one
    model, so that headers can be compared. A recipe with the tally `peers` counts choices and logs
    what the chosen peers' models are worth on client 0's test data (Figure 2). Differences from the
    paper's text: paper_tables/pfeddst/README.md.
    """

    HP = HP
    decentralised = True

    def init(self, fed: Federation) -> State:
        start = fed.new_model()
        loss = start.new_zeros(fed.N)
        if self.uses_losses:
            everyone = list(range(fed.N))
            loss = self.losses(fed, start[None], [0] * fed.N, everyone)
        return {
            "w": start.repeat(fed.N, 1),  # [N, D]
            "loss": loss.repeat(fed.N, 1),  # [N, N], of i's model on j's data
            # [N, N], the round in which i last chose j; 0: never
            "last": torch.zeros(fed.N, fed.N, dtype=torch.int64, device=fed.device),
        }

    @property
    def uses_losses(self) -> bool:
        return self.hp.selection == "score" and self.hp.alpha > 0

    def round(self, state: State, fed: Federation) -> State:
        extractor = fed.communicated & fed.params.body
        scores = self.scores(state, fed)
        graph = fed.topology.best(scores, self.hp.degree)
        self.log_peers(state, fed, graph, scores)
        mixing = topology.row_stochastic(graph)
        w = self.train(fed, fed.gossip(state.pop("w"), mixing, extractor))
        loss = self.measure_losses(fed, w, state["loss"], graph)
        return {"w": w, "loss": loss, "last": state["last"].masked_fill(graph, fed.round)}

    # -- who is chosen -----------------------------------------------------------------------------

    def scores(self, state: State, fed: Federation) -> Tensor:
        """Return S, by which client i ranks the extractors of clients j  [N, N]."""
        hp, last = self.hp, state["last"]
        if hp.selection == "random":
            fed.log("bytes/header", 0.0)
            return torch.zeros(fed.N, fed.N, dtype=fed.dtype, device=fed.device)
        distance = self.header_distance(fed, state["w"])
        if hp.selection == "header":
            return -distance
        score = hp.alpha * self.known_losses(state, fed) - distance + hp.cost
        if hp.recency is None:
            return score
        since = torch.where(last > 0, fed.round - last, fed.round - 1).to(score.dtype)
        recency = -torch.expm1(-hp.recency * since)
        if hp.unseen == "one":
            recency = torch.where(last > 0, recency, 1.0)
        return recency * score

    def header_distance(self, fed: Federation, w: Tensor) -> Tensor:
        """Send headers to all other clients; return s_d  [N, N]."""
        places = [s.place for s in fed.params.tensors(head=True)]
        own = columns(w, places)
        size = own.shape[1]
        received = fed.send_peers(own, everyone(fed), floats=size)
        fed.log("bytes/header", 4 * size * fed.N * (fed.N - 1))
        headers = F.normalize(received.double(), dim=1)
        cosine = (headers @ headers.T).round(decimals=COSINE_DECIMALS).to(fed.dtype)
        return 1 - cosine if self.hp.header_term == "distance" else cosine

    def known_losses(self, state: State, fed: Federation) -> Tensor:
        """Return l_i[j]; in the first round clients send their loss to all others  [N, N]."""
        if self.uses_losses and fed.round == 1:
            return fed.send_peers(state["loss"], everyone(fed), floats=1)
        return state["loss"]

    # -- training and probing ----------------------------------------------------------------------

    def train(self, fed: Federation, w: Tensor) -> Tensor:
        """Train the extractors, then the headers  [N, D]."""
        w = self.train_extractor(fed, w)
        return self.train_header(fed, w, first_epoch=fed.epochs)

    def train_extractor(self, fed: Federation, w: Tensor, *, first_epoch: int = 0) -> Tensor:
        extractor = fed.params.learnable & fed.params.body
        return fed.train(w, trainable=extractor, first_epoch=first_epoch)

    def train_header(self, fed: Federation, w: Tensor, *, first_epoch: int = 0) -> Tensor:
        hp = self.hp
        return fed.train(
            w,
            loss=cross_entropy_eval,
            trainable=fed.params.head,
            epochs=hp.head_epochs,
            first_epoch=first_epoch,
            lr=fed.lr if hp.head_lr is None else fed.lr * hp.head_lr / fed.protocol.lr,
        )

    def measure_losses(self, fed: Federation, w: Tensor, loss: Tensor, graph: Tensor) -> Tensor:
        """Send clients' new models to peers, which return the loss on their data  [N, N]."""
        fed.log("bytes/probe", 0.0)
        if not self.uses_losses:
            return loss
        probed = graph if self.hp.refresh == "contacted" else everyone(fed)
        received = fed.send_peers(w, probed.T, floats=fed.D)
        fed.log("bytes/probe", 4 * (fed.D + 1) * probed.sum())
        owners, peers = fed.to_host(probed).nonzero(as_tuple=True)
        place = to_device(owners, fed.device), to_device(peers, fed.device)
        values = self.losses(fed, received, owners.tolist(), peers.tolist())
        measured = torch.zeros_like(loss).index_put(place, values)
        return torch.where(probed, fed.send_peers(measured, probed, floats=1), loss)

    def losses(self, fed: Federation, w: Tensor, owners: list[int], peers: list[int]) -> Tensor:
        """Return the loss of each owner's model on evenly spaced training samples of its peer; zero
        if the peer has none  [M].
        """
        counts = [min(size, self.hp.probe) for size in fed.samples]
        sample_index = [
            torch.arange(count) * size // max(count, 1)
            for size, count in zip(fed.samples, counts, strict=True)
        ]
        out = w.new_zeros(len(owners))
        for rows in row_slices(len(owners), max(fed.stack, 16)):
            index = to_device(torch.tensor(owners[rows]), fed.device)
            pick = [sample_index[peer] for peer in peers[rows]]
            out[rows] = mean_losses(fed, w[index], of=peers[rows], pick=pick, batch=self.hp.probe)
        return out

    # -- what is logged ----------------------------------------------------------------------------

    def log_peers(self, state: State, fed: Federation, graph: Tensor, scores: Tensor) -> None:
        """Log how alike the classes of peers are and, for Figure 2, what the models of client 0's
        peers are worth on its test data: `peers/own`, then `peers/0` and so on by descending score.
        """
        links = fed.to_host(graph)
        fed.log("bytes/extractor", 4 * (fed.communicated & fed.params.body).sum() * graph.sum())
        share = fed.to_host(fed.class_counts).double()
        share = share / share.sum(1, keepdim=True).clamp(min=1)
        common = torch.minimum(share[:, None], share[None]).sum(2)  # [N, N]
        fed.log("overlap", common[links].mean() if bool(links.any()) else 0.0)
        fed.count_mask("peers", graph)
        if not fed.scoring or "peers" not in fed.recipe.evaluation.tallies:
            return
        chosen = links[0].nonzero().flatten()
        ranked = fed.to_host(scores[0])[chosen].argsort(descending=True, stable=True)
        clients = to_device(torch.cat([chosen.new_zeros(1), chosen[ranked]]), fed.device)
        with fed.as_active([0] * len(clients)):
            correct, total = fed.count_correct(state["w"][clients], "test")
        accuracy = fed.to_host(correct).double() / total.clamp(min=1)
        for place, value in enumerate(accuracy):
            fed.log(f"peers/{place - 1}" if place else "peers/own", value)

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return the mean of the extractors, with an initial header: headers are never mixed."""
        extractor = fed.communicated & fed.params.body
        return torch.where(extractor, state["w"].mean(0), fed.new_model())


def everyone(fed: Federation) -> Tensor:
    """Return the graph in which every client sends to all others  [N, N] bool."""
    return ~torch.eye(fed.N, dtype=torch.bool, device=fed.device)
