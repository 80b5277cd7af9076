"""Who talks to whom where there is no server: graphs over the clients, and the weights with which
neighbours are mixed.

A graph is a matrix [N, N] bool whose entry [i, j] says that i receives from j; nobody receives from
itself. A mixing matrix W [N, N] adds the weights: client i goes on with sum_j W_ij x_j, its own
part included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Graph = Literal["pull", "push", "regular", "ring", "complete", "none"]
"""pull     - every client receives from `degree` random others, drawn anew in every round
            (directed)
push     - every client sends to `degree` random others, drawn anew in every round (directed)
regular  - a random undirected graph of that degree, drawn anew in every round
ring     - neighbours by number, the same in every round
complete - everybody
none     - nobody
"""

Order = Literal["gossip-train", "train-gossip"]
"""gossip-train: neighbours' models of the last round are mixed before training, and trained models
are what is scored; train-gossip: models are mixed after training, and mixed models are what is
scored.
"""

ATTEMPTS = 1000
BLOCK = 1 << 24
"""Entries that are mixed at a time, so that a third copy of everybody's models never exists."""


class Topology:
    """The graphs of one round. Equal arguments give equal graphs, whichever method asks."""

    def __init__(
        self, clients: int, rng: Callable[[str], np.random.Generator], device: torch.device
    ) -> None:
        self.N, self._rng, self.device = clients, rng, device

    def graph(self, kind: Graph, degree: int) -> Tensor:
        """A graph of the given kind; a degree above N - 1 means everybody  [N, N] bool."""
        makers: dict[Graph, Callable[[], Tensor]] = {
            "pull": lambda: self.pull(degree),
            "push": lambda: self.pull(degree).T.contiguous(),
            "regular": lambda: self.regular(degree),
            "ring": self.ring,
            "complete": lambda: self.regular(self.N - 1),
            "none": lambda: self.pull(0),
        }
        return makers[kind]()

    def mixing(self, kind: Graph, degree: int) -> Tensor:
        """Plain averages over each client and those it hears; doubly stochastic on undirected
        graphs  [N, N].
        """
        graph = self.graph(kind, degree)
        return row_stochastic(graph) if kind in ("pull", "push") else metropolis(graph)

    def pull(self, degree: int) -> Tensor:
        """Every client receives from `degree` random others."""
        return self.best(torch.zeros(self.N, self.N, device=self.device), degree)

    def best(self, scores: Tensor, degree: int) -> Tensor:
        """Every client i receives from the `degree` others with the highest scores [i, j]; lots
        decide between equal ones.
        """
        lots = (
            torch.from_numpy(self._rng("graph").random((self.N, self.N)))
            .argsort(dim=1)
            .to(self.device)
        )
        others = scores.masked_fill(
            torch.eye(self.N, dtype=torch.bool, device=self.device), -torch.inf
        )
        ranked = others.gather(1, lots).argsort(dim=1, descending=True, stable=True)[
            :, : min(degree, self.N - 1)
        ]
        graph = torch.zeros(self.N, self.N, dtype=torch.bool, device=self.device)
        return graph.scatter_(1, lots.gather(1, ranked), value=True)

    def regular(self, degree: int) -> Tensor:
        """A random undirected graph in which everybody has `degree` neighbours; one client is off
        by one where N * degree is odd.
        """
        degree = min(degree, self.N - 1)
        dense = 2 * degree > self.N - 1  # then its complement is easier to draw
        rng = self._rng("graph")
        for _ in range(ATTEMPTS):
            linked = _paired(self.N, self.N - 1 - degree if dense else degree, rng)
            if linked is not None:
                found = ~linked | np.eye(self.N, dtype=bool) if dense else linked
                return torch.from_numpy(found & ~np.eye(self.N, dtype=bool)).to(self.device)
        raise ValueError(
            f"no graph of {self.N} clients with {degree} neighbours each was found: choose another"
            " degree"
        )

    def ring(self) -> Tensor:
        """Neighbours on both sides."""
        place = torch.arange(self.N, device=self.device)
        apart = (place[:, None] - place[None, :]).abs()
        return (apart == 1) | ((apart == self.N - 1) & (apart > 0))


def _paired(clients: int, degree: int, rng: np.random.Generator) -> np.ndarray | None:
    """Join free ends of edges at random until none is left; nothing when the last ones do not fit
    (Steger and Wormald).
    """
    linked = np.eye(clients, dtype=bool)
    ends = np.repeat(np.arange(clients), degree)
    ends = rng.permutation(ends)[: len(ends) // 2 * 2]
    while len(ends):
        left = []
        for one, other in rng.permutation(ends).reshape(-1, 2).tolist():
            if linked[one, other]:
                left += [one, other]
            else:
                linked[one, other] = linked[other, one] = True
        if len(left) == len(ends):
            return None
        ends = np.array(left, dtype=np.int64)
    return linked & ~np.eye(clients, dtype=bool)


# -- weights on a graph ----------------------------------------------------------------------------


def with_self(graph: Tensor) -> Tensor:
    """The graph as ones and zeros, everybody hearing itself as well  [N, N] float64."""
    return (graph | torch.eye(len(graph), dtype=torch.bool, device=graph.device)).double()


def row_stochastic(graph: Tensor) -> Tensor:
    """Everybody takes the plain average of itself and those it hears."""
    weights = with_self(graph)
    return weights / weights.sum(dim=1, keepdim=True)


def column_stochastic(graph: Tensor) -> Tensor:
    """Everybody hands equal shares of what it has to itself and its hearers."""
    weights = with_self(graph)
    return weights / weights.sum(dim=0, keepdim=True)


def metropolis(graph: Tensor) -> Tensor:
    """Symmetric, doubly stochastic weights on any undirected graph: 1 / (1 + the larger degree of
    the two).
    """
    degree = graph.sum(dim=1).double()
    weights = graph / (1 + torch.maximum(degree[:, None], degree[None, :]))
    return weights + torch.diag(1 - weights.sum(dim=1))


def push_sum(shares: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """One push of column-stochastic `shares` [N, N] in terms of de-biased values z_i = u_i / mu_i,
    given the masses mu [N].

    u <- P u and mu <- P mu together mean z_i <- sum_j (P_ij mu_j / sum_l P_il mu_l) z_j. Returns
    those weights and the new masses.
    """
    parts = shares * mass
    return parts / parts.sum(dim=1, keepdim=True), parts.sum(dim=1)


def mix(x: Tensor, weights: Tensor, mask: Tensor, *, renormalise: bool = False) -> Tensor:
    """Rows of x [N, D] mixed by weights [N, N], a block of columns at a time.

    Entries outside a common mask [D] stay each client's own. With masks per sender [N, D] missing
    entries count as zeros or, with `renormalise`, not at all: an entry is then averaged over those
    who hold it, and zero where nobody does.
    """
    out = x.new_empty(x.shape)
    zero, width = x.new_zeros(()), max(1, BLOCK // len(x))
    for first in range(0, x.shape[1], width):
        place = slice(first, first + width)
        own, held = x[:, place], mask[..., place]
        mixed = weights @ torch.where(held, own, zero)
        if renormalise:
            share = weights @ held.to(x.dtype).expand_as(own)
            mixed = torch.where(share > 0, mixed / share, zero)
        out[:, place] = torch.where(held, mixed, own) if mask.dim() == 1 else mixed
    return out
