"""Dis-PFL: decentralised sparse training with a mask of one's own."""

from __future__ import annotations

from math import ceil, cos, pi
from typing import Literal

import torch
from torch import Tensor

from repfl.algorithms.core import sparse, topology
from repfl.algorithms.core.batches import Batch
from repfl.algorithms.core.chunk import Chunk, still_cross_entropy
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.layout import blocks, largest
from repfl.algorithms.core.method import Method, State, hyperparameters, param, register
from repfl.algorithms.core.rng import lots


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
    cost=1.5,
    gate={"degree": 2},
)
class DisPFL(Method[HP]):
    """Client i trains a sparse model x_i under a mask m_i with a fixed number of entries per
    tensor.

    A round: x_i[k] <- mean of x_j[k] over those neighbours j, and i itself, whose mask of the last
    round holds k (zero where none does), times m_i. Then SGD in which entries outside m_i stay
    zero, though their gradients count in a clipped norm, as in the code. Then m_i loses, per
    tensor, the share r_t = a/2 (1 + cos(pi t / T)) of smallest magnitude and regains as many of its
    empty places, those just emptied included, at random or by the gradient of one mini-batch.
    Values stay: they travel under the mask that they were trained with. Models are scored after
    training; mixed ones as `gossiped`. All learnable entries are masked; BN statistics are not.
    """

    HP = HP
    serverless = True

    def init(self, fed: Federation) -> State:
        mask = self.first_masks(fed)
        return {
            "w": torch.where(mask, fed.new_model(), 0.0),
            "sent": mask,
            "mask": mask.clone(),
        }  # each [N, D]; w has mask `sent`

    def first_masks(self, fed: Federation) -> Tensor:
        """Masks that nothing is known for yet  [N, D] bool."""
        keys = self.keys(fed, "mask")
        keys = keys[:1].expand(fed.N) if self.hp.masks == "common" else keys
        return sparse.scattered(fed.layout, sparse.erk(fed.layout, self.hp.density), keys)

    def keys(self, fed: Federation, purpose: str) -> Tensor:
        """A random stream for every client  [N]."""
        return torch.from_numpy(fed.rng(purpose).integers(-(2**63), 2**63, size=fed.N)).to(
            fed.device
        )

    def round(self, state: State, fed: Federation) -> State:
        mask = state["mask"]
        w = self.gossip(state, fed)
        clip = fed.sgd.clip

        def step(local: Chunk, batch: Batch) -> None:
            grads = local.grad(batch)
            local.sgd(local.clipped(grads, clip, frozen_too=True) if clip else grads)

        fed.trained = fed.loop(
            step, {"w": w}, trainable=mask, clip=0.0, in_place=True, same=("sparse", clip)
        ).theta
        fed.tally("mask", mask)
        return {"w": w, "sent": mask, "mask": self.evolved(fed, w, mask)}

    def gossip(self, state: State, fed: Federation) -> Tensor:
        """Every entry's mean over the neighbours that hold it, under the client's own
        mask  [N, D].
        """
        travels, learnable = fed.exchanged, fed.layout.learnable
        sent = state.pop("sent") if bool(travels.all()) else state.pop("sent") & travels
        everyone = topology.with_self(fed.topology.graph(self.hp.graph, self.hp.degree))
        own = state.pop("w")
        w = fed.gossip(own, everyone, sent, code="bitmap", domain=learnable, renormalise=True)
        w[:, ~travels] = own[:, ~travels]
        for rows in blocks(fed.N):  # a product of two types copies the mask as numbers
            w[rows] *= state["mask"][rows]
        fed.score("gossiped", w)
        return w

    def evolved(self, fed: Federation, w: Tensor, mask: Tensor) -> Tensor:
        """The masks of the next round  [N, D] bool."""
        share = self.hp.anneal / 2 * (1 + cos(pi * (fed.round - 1) / fed.rounds))
        counts, keys, new = (
            sparse.erk(fed.layout, self.hp.density),
            self.keys(fed, "regrow"),
            mask.clone(),
        )
        sparse_ones = [
            s for s in fed.layout if counts.get(s.name, s.size) < s.size
        ]  # a full tensor regains all that it loses
        for rows in blocks(fed.N, min(fed.chunk, 16)):
            wish = self.gradients(fed, w, rows).abs() if self.hp.regrow == "gradient" else None
            for s in sparse_ones:
                place, swaps = (
                    slice(s.start, s.stop),
                    keys[rows].new_full((len(keys[rows]),), ceil(share * counts[s.name])),
                )
                held = mask[rows, place]
                kept = held & ~largest(torch.where(held, -w[rows, place].abs(), -torch.inf), swaps)
                draw = lots(keys[rows], s.start, s.size) if wish is None else wish[:, place]
                never = torch.iinfo(draw.dtype).min if wish is None else -1.0
                new[rows, place] = kept | largest(draw.masked_fill(kept, never), swaps)
        return new

    def gradients(self, fed: Federation, w: Tensor, rows: slice) -> Tensor:
        """Gradients of some clients' models on one mini-batch, empty places included  [rows, D]."""

        def screen(local: Chunk, batch: Batch) -> None:
            local.grad(batch, still_cross_entropy)

        with fed.among(fed.everybody[rows]):
            found = fed.loop(
                screen,
                {"w": w[rows]},
                epochs=1,
                steps=1,
                stream="screen",
                keep=("last_grad",),
                same="screen",
            ).last_grad
        assert found is not None
        return found

    def personal(self, state: State, fed: Federation) -> Tensor:
        return state["w"][fed.active]

    def offer(self, state: State, fed: Federation) -> Tensor:
        """Every entry's mean over the clients that hold it."""
        holders = state["sent"].sum(0).clamp(min=1)
        return torch.where(fed.exchanged, state["w"].sum(0) / holders, fed.new_model())

    def join(self, state: State, fed: Federation) -> Tensor:
        """What is offered under a first mask of the newcomer's own, trained under it."""
        mask = self.first_masks(fed)
        start = torch.where(mask, self.offer(state, fed), 0.0)
        return fed.train(start, trainable=mask, stream="join").theta
