"""Dis-PFL: decentralised training of sparse models, each client with its own mask."""

from __future__ import annotations

from math import ceil, cos, pi
from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client, cross_entropy_eval
from repfl.algorithms.engine.client_data import to_device
from repfl.algorithms.engine.params import row_slices
from repfl.algorithms.engine.rng import splitmix64
from repfl.algorithms.math.masks import topk_mask
from repfl.algorithms.math.sparse import erk_counts, random_masks


@hyperparameters
class HP:
    """How sparse models are, how masks evolve, and the graph."""

    density: float = param(
        0.5,
        "share of non-zero entries, spread over the tensors by the ERK rule",
        gt=0,
        le=1,
        paper=0.5,
        search={"uniform": [0.2, 0.8]},
    )
    anneal: float = param(
        0.5,
        "share of a mask that is renewed after the first round; a cosine takes it to zero",
        ge=0,
        le=1,
        paper=0.5,
        search={"uniform": [0.1, 0.9]},
    )
    regrow: Literal["random", "gradient"] = param(
        "random", "which entries come back", paper="text: gradient; the code's scripts: random"
    )
    masks: Literal["own", "common"] = param(
        "own", "first masks: one per client, or one for all", paper="the code's scripts: own"
    )
    degree: int = param(10, "neighbours per client", ge=0, paper=10, search={"whole": [2, 10]})
    graph: topology.Graph = param("pull", "who hears whom", paper="pull")


@register(
    "dis-pfl",
    title="Dis-PFL",
    paper=(
        "Dai et al., DisPFL: Towards Communication-Efficient Personalized Federated Learning via"
        " Decentralized Sparse Training, ICML 2022, arXiv 2206.00187; code: rong-dai/DisPFL at"
        " e2f47d4"
    ),
    year=2022,
    family="decentralised",
    needs=("p2p",),
    sends="each client's non-zero entries and a bitmap of its mask to every client that hears it",
    variants=("regrow=gradient", "masks=common"),
    cost=1.2,
    gate_hp={"degree": 2},
)
class DisPFL(Method[HP]):
    """Client i trains a sparse model x_i under a mask m_i that keeps a fixed number of entries per
    tensor.

    x_i[k] <- m_i[k] * mean of x_j[k] over those of i and its neighbours whose last mask has k;
    x_i <- SGD on the entries in m_i;  m_i loses, per tensor, the share
    r_t = a/2 (1 + cos(pi t / T)) of smallest magnitude and regains as many empty entries, at random
    or by the gradient of one mini-batch.

    Values are sent under the mask that they were trained with. All learnable entries are masked;
    batch-norm statistics are not. Mixed models are scored as `gossiped`. Differences from published
    code: docs/methods/dis_pfl.md.
    """

    HP = HP
    decentralised = True

    def init(self, fed: Federation) -> State:
        mask = self.first_masks(fed)
        w = torch.where(mask, fed.new_model(), 0.0)
        # each [N, D]; `sent` is the mask that w was trained with
        return {"w": w, "sent": mask, "mask": mask.clone()}

    def first_masks(self, fed: Federation) -> Tensor:
        """Return random masks  [N, D] bool."""
        keys = self.keys(fed, "mask")
        if self.hp.masks == "common":
            keys = keys[:1].expand(fed.N)
        return random_masks(fed.params, erk_counts(fed.params, self.hp.density), keys)

    def keys(self, fed: Federation, purpose: str) -> Tensor:
        """Return the key of a random stream for each client  [N]."""
        drawn = fed.rng(purpose).integers(-(2**63), 2**63, size=fed.N)
        return to_device(torch.from_numpy(drawn), fed.device)

    def round(self, state: State, fed: Federation) -> State:
        mask, clip = state["mask"], fed.protocol.clip
        w = self.gossip(fed, state.pop("w"), state.pop("sent"), mask)

        def step(client: Client, batch: Batch) -> None:
            grads = client.grad(batch)
            client.update(client.clipped(grads, clip, frozen_too=True) if clip else grads)

        w = fed.train(w, step=step, trainable=mask, clip=0.0)
        fed.count_mask("mask", mask)
        return {"w": w, "sent": mask, "mask": self.next_masks(fed, w, mask)}

    def gossip(self, fed: Federation, w: Tensor, sent: Tensor, mask: Tensor) -> Tensor:
        """Average every entry over the neighbours that have it; keep those in the client's mask
        [N, D].
        """
        graph = fed.topology.graph(self.hp.graph, self.hp.degree)
        sent = sent.logical_and_(fed.communicated)
        mixed = fed.gossip(
            w,
            topology.with_self(graph),
            sent,
            code="bitmap",
            domain=fed.params.learnable,
            renormalise=True,
        )
        for rows in row_slices(fed.N):
            mixed[rows] = torch.where(fed.communicated, mixed[rows], w[rows]) * mask[rows]
        fed.score("gossiped", mixed)
        return mixed

    def next_masks(self, fed: Federation, w: Tensor, mask: Tensor) -> Tensor:
        """Return the masks of the next round  [N, D] bool."""
        share = self.hp.anneal / 2 * (1 + cos(pi * (fed.round - 1) / fed.rounds))
        counts = erk_counts(fed.params, self.hp.density)
        # a dense tensor would regain all that it loses
        sparse = [s for s in fed.params.trained if counts[s.name] < s.size]
        keys, new = self.keys(fed, "regrow"), mask.clone()
        for rows in row_slices(fed.N, min(fed.stack, 16)):
            by_gradient = self.hp.regrow == "gradient"
            grads = self.gradients(fed, w, rows).abs() if by_gradient else None
            for s in sparse:
                scores = (
                    splitmix64(keys[rows], s.start, s.size) if grads is None else grads[:, s.place]
                )
                swaps = torch.full_like(keys[rows], ceil(share * counts[s.name]))
                new[rows, s.place] = self.swap(w[rows, s.place], mask[rows, s.place], scores, swaps)
        return new

    def swap(self, w: Tensor, mask: Tensor, scores: Tensor, swaps: Tensor) -> Tensor:
        """Return masks without the `swaps` [K] entries of smallest magnitude, and with as many of
        the highest scores among all that are then empty  [K, n] bool.
        """
        remaining = mask & ~topk_mask(torch.where(mask, -w.abs(), -torch.inf), swaps)
        lowest = -1.0 if scores.is_floating_point() else torch.iinfo(scores.dtype).min
        return remaining | topk_mask(scores.masked_fill(remaining, lowest), swaps)

    def gradients(self, fed: Federation, w: Tensor, rows: slice) -> Tensor:
        """Return the gradients of some clients' models on one mini-batch  [rows, D]."""

        def step(client: Client, batch: Batch) -> None:
            client.grad(batch, cross_entropy_eval)

        with fed.as_active(range(rows.start, rows.stop)):
            screened = fed.train(
                w[rows],
                step=step,
                epochs=1,
                steps=1,
                stream="screen",
                keep=("last_grad",),
                scored=False,
            )
        assert screened.last_grad is not None
        return screened.last_grad

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def newcomer_init(self, state: State, fed: Federation) -> Tensor:
        """Return every entry's mean over the clients that have it."""
        holders = state["sent"].sum(0).clamp(min=1)
        return torch.where(fed.communicated, state["w"].sum(0) / holders, fed.new_model())

    def newcomer_params(self, state: State, fed: Federation) -> Tensor:
        """Train this mean under a first mask of each newcomer's own."""
        mask = self.first_masks(fed)
        start = torch.where(mask, self.newcomer_init(state, fed), 0.0)
        return fed.train(start, trainable=mask, stream="join")
