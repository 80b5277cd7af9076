"""PFedDST: every client chooses its peers by a score of loss, header and recency."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.alternate import Phase, in_phases
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, still_cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import blocks
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register

DIGITS = 6
"""Cosines are rounded to so many decimals: all headers are equal at first, and errors of arithmetic
are no reason to prefer a peer.
"""


@hyperparameters
class HP:
    """Who is chosen, and how the two parts train."""

    degree: int = param(
        10, "peers k that a client chooses", ge=0, paper=10, search={"whole": [2, 10]}
    )
    selection: Literal["score", "header", "random"] = param(
        "score", "by S, by its header term alone, or by lot", paper="Fig. 2: random, header"
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


@register(
    "pfeddst",
    title="PFedDST",
    paper=(
        "PFedDST: Personalized Federated Learning with Decentralized Selection Training, 2025,"
        " arXiv 2502.07750"
    ),
    year=2025,
    family="decentralised",
    needs=("p2p", "head"),
    sends=(
        "extractors of the chosen peers; everybody's header to everybody; to probe a loss, the"
        " model to the peer and a number back"
    ),
    variants=(
        "selection=header",
        "selection=random",
        "header_term=literal",
        "refresh=all",
        "head_lr=0.001",
    ),
    cost=1.9,
    gate={"degree": 2},
)
class PFedDST(Method[HP]):
    """Client i has an extractor e_i, a header h_i, its loss l_i[j] on peer j's data, and the round
    r_i[j] in which it last chose j.

    S(i, j) = s_p (alpha s_l - s_d + c), s_l = l_i[j], s_d = 1 - cos(h_i, h_j), s_p = 1 -
    exp(-lambda (t - r_i[j])) or 1 if never chosen. Client i chooses the k peers of highest S (lots
    break ties), sets r_i[j] = t, and averages: e_i <- (e_i + sum e_j) / (k + 1). It trains e_i with
    h_i frozen, then h_i with e_i frozen, meanwhile with running statistics of batch norm (the model
    of its tables has group norm). Peers fetch e_i in the next round, h_i is published, l_i[j]
    renewed for those just met. The paper's text has lost its formulas. Literally, eq. 7 is a
    similarity that eq. 9 subtracts, against the prose: see `header_term`. All clients start from
    one model, so that headers can be compared; the first losses are that model's, told by each
    client to the others. The paper's "decay rate 0.005" belongs to the recipe: lr x 0.995 per
    round, or weight decay, or DFedPGP's 0.99 with `head_lr=0.001`. Bytes of extractors, headers and
    probes are also noted one by one. A recipe with the tally `peers` counts choices and, in scored
    rounds, notes what the chosen peers' models are worth on client 0's test data: `peers/own`, then
    `peers/0` to `peers/9` by descending score.
    """

    HP = HP
    serverless = True

    def passes(self, epochs: int) -> tuple[int, int]:
        return epochs, self.hp.head_epochs

    def init(self, fed: Federation) -> State:
        start = fed.new_model()
        same = torch.zeros_like(fed.everybody)
        loss = (
            self.losses(fed, start[None], same, fed.everybody)
            if self.uses_losses
            else start.new_zeros(fed.N)
        )
        return {
            "w": start.repeat(fed.N, 1),  # [N, D]
            "loss": loss.repeat(fed.N, 1),  # [N, N], of i's model on j's data
            "last": torch.zeros(
                fed.N, fed.N, dtype=torch.int64, device=fed.device
            ),  # [N, N], the round; 0: never
        }

    @property
    def uses_losses(self) -> bool:
        return self.hp.selection == "score" and self.hp.alpha > 0

    def round(self, state: State, fed: Federation) -> State:
        scores = self.scores(state, fed)
        graph = fed.topology.best(scores, self.hp.degree)
        self.watch(state, fed, graph, scores)
        w = fed.gossip(state.pop("w"), topology.row_stochastic(graph), fed.exchanged_body)
        self.train(fed, w)
        loss = self.renewed(fed, w, state["loss"], graph)
        self.publish(fed, graph)
        return {"w": w, "loss": loss, "last": state["last"].masked_fill(graph, fed.round)}

    def scores(self, state: State, fed: Federation) -> Tensor:
        """How much client i wants the extractor of client j  [N, N]."""
        hp, last = self.hp, state["last"]
        headers = F.normalize(state["w"][:, fed.layout.head].double(), dim=1)
        cosine = (headers @ headers.T).round(decimals=DIGITS).to(fed.dtype)
        apart = 1 - cosine if hp.header_term == "distance" else cosine
        if hp.selection != "score":
            return -apart if hp.selection == "header" else torch.zeros_like(apart)
        if hp.recency is None:
            return hp.alpha * state["loss"] - apart + hp.cost
        since = torch.where(last > 0, fed.round - last, fed.round - 1).to(apart.dtype)
        recency = -torch.expm1(-hp.recency * since)
        if hp.unseen == "one":
            recency = torch.where(last > 0, recency, 1.0)
        return recency * (hp.alpha * state["loss"] - apart + hp.cost)

    def train(self, fed: Federation, w: Tensor) -> None:
        """Extractor, then header, overwriting w [N, D]."""
        hp, head = self.hp, fed.layout.head
        rate = fed.sgd.lr if hp.head_lr is None else fed.sgd.lr * hp.head_lr / fed.protocol.lr
        extractor = Phase(fed.layout.learnable & ~head, fed.protocol.epochs, {"in_place": True})
        header = Phase(
            head, hp.head_epochs, {"in_place": True, "objective": still_cross_entropy, "lr": rate}
        )
        in_phases(fed, w, [extractor, header])

    def renewed(self, fed: Federation, w: Tensor, loss: Tensor, graph: Tensor) -> Tensor:
        """Losses of clients' new models on the data of peers  [N, N]."""
        fed.note("bytes/probe", 0.0)
        if not self.uses_losses:
            return loss
        probed = (
            graph
            if self.hp.refresh == "contacted"
            else ~torch.eye(fed.N, dtype=torch.bool, device=fed.device)
        )
        owners, peers = probed.nonzero(as_tuple=True)
        out = loss.clone()
        out[owners, peers] = self.losses(fed, w, owners, peers)
        fed.tell(probed.T, fed.D)
        fed.tell(probed, 1)
        fed.note("bytes/probe", 4 * (fed.D + 1) * probed.sum())
        return out

    def losses(self, fed: Federation, w: Tensor, owners: Tensor, peers: Tensor) -> Tensor:
        """Loss of each owner's model on evenly spaced training samples of the peer beside it; zero
        where the peer has none  [M].
        """
        sizes = [(size, min(size, self.hp.probe)) for size in fed.sizes.tolist()]
        places = [torch.arange(some) * size // max(some, 1) for size, some in sizes]
        out = torch.zeros(len(owners), dtype=w.dtype, device=w.device)
        for rows in blocks(len(owners), max(fed.chunk, 16)):
            whose = peers[rows]
            pick = [places[client] for client in whose.tolist()]
            found = fed.visit(
                _probe,
                {"w": w[owners[rows]]},
                extras={"loss": out[rows]},
                of=whose,
                pick=pick,
                batch=self.hp.probe,
            )
            out[rows] = found.extras["loss"]
        return out

    def publish(self, fed: Federation, graph: Tensor) -> None:
        """Bill headers (and, once, the first losses), and note what was sent and to whom."""
        everybody = torch.ones_like(graph)
        header = int(fed.layout.head.sum()) if self.hp.selection != "random" else 0
        fed.tell(everybody, header + int(self.uses_losses and fed.round == 1))
        fed.note("bytes/extractor", 4 * fed.exchanged_body.sum() * graph.sum())
        fed.note("bytes/header", 4 * header * fed.N * (fed.N - 1))
        share = fed.data.class_counts.double()
        share = share / share.sum(1, keepdim=True).clamp(min=1)
        common = torch.minimum(share[:, None], share[None]).sum(
            2
        )  # [N, N], how alike two clients' classes are
        fed.note("overlap", common[graph].mean() if bool(graph.any()) else 0.0)
        fed.tally("peers", graph)

    def watch(self, state: State, fed: Federation, graph: Tensor, scores: Tensor) -> None:
        """Figure 2: what the chosen peers' models are worth on client 0's test data."""
        if not fed.scoring or "peers" not in fed.recipe.evaluation.tallies:
            return
        chosen = graph[0].nonzero().flatten()
        members = torch.cat(
            [fed.everybody[:1], chosen[scores[0, chosen].argsort(descending=True, stable=True)]]
        )
        with fed.among(torch.zeros_like(members)):
            correct, total = fed.correct(state["w"][members], "test")
        for place, (hits, samples) in enumerate(zip(correct.tolist(), total.tolist(), strict=True)):
            fed.note(f"peers/{place - 1}" if place else "peers/own", hits / max(samples, 1))

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def offer(self, state: State, fed: Federation) -> Tensor:
        """The mean of the extractors; headers are compared and never mixed, so a newcomer's is
        initial.
        """
        extractor = fed.exchanged_body
        return torch.where(extractor, state["w"].mean(0), fed.new_model())


def _probe(local: Chunk, batch: Batch) -> None:
    with torch.no_grad():
        local.extras["loss"] = still_cross_entropy(local, batch, local.models["w"])
