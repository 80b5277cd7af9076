"""Which clients send to which if there is no server, and how neighbours are mixed.

A graph is a matrix [N, N] bool whose entry [i, j] says that i receives from j; nobody receives from
itself. A mixing matrix W [N, N] holds the weights: client i continues with sum_j W_ij x_j, its own
part included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.engine.client_data import to_device

Graph = Literal["pull", "push", "regular", "ring", "complete", "none"]
"""pull     - every client receives from `degree` random others, drawn in every round (directed)
push     - every client sends to `degree` random others, drawn in every round (directed)
regular  - a random undirected graph of that degree, drawn in every round
ring     - neighbours by number, the same in every round
complete - all others
none     - nobody
"""

Order = Literal["gossip-train", "train-gossip"]
"""gossip-train: neighbours' models of the last round are mixed before training, and trained models
are scored; train-gossip: models are mixed after training, and mixed models are scored.
"""

MAX_ATTEMPTS = 1000
MIXED_AT_ONCE = 1 << 24
"""Entries that are mixed at a time, so that no third copy of all models exists."""


class Topology:
    """The graphs of one round. Equal arguments give equal graphs in every method."""

    def __init__(
        self, clients: int, rng: Callable[[str], np.random.Generator], device: torch.device
    ) -> None:
        self.N, self._rng, self.device = clients, rng, device

    def graph(self, kind: Graph, degree: int) -> Tensor:
        """Return a graph of the given kind; a degree above N - 1 means all others  [N, N] bool."""
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
        """Return weights for plain averages over each client and its neighbours; doubly stochastic
        on undirected graphs  [N, N].
        """
        graph = self.graph(kind, degree)
        return row_stochastic(graph) if kind in ("pull", "push") else metropolis(graph)

    def pull(self, degree: int) -> Tensor:
        """Return a graph in which every client receives from `degree` random others."""
        return self.best(torch.zeros(self.N, self.N, device=self.device), degree)

    def best(self, scores: Tensor, degree: int) -> Tensor:
        """Return a graph in which every client i receives from the `degree` others with the highest
        scores [i, j]; ties are broken at random.
        """
        drawn = torch.from_numpy(self._rng("graph").random((self.N, self.N)))
        order = to_device(drawn.argsort(dim=1), self.device)
        itself = torch.eye(self.N, dtype=torch.bool, device=self.device)
        shuffled = scores.masked_fill(itself, -torch.inf).gather(1, order)
        ranked = shuffled.argsort(dim=1, descending=True, stable=True)
        chosen = order.gather(1, ranked[:, : min(degree, self.N - 1)])
        return torch.zeros_like(itself).scatter_(1, chosen, value=True)

    def regular(self, degree: int) -> Tensor:
        """Return a random undirected graph in which every client has `degree` neighbours; one
        client is off by one if N * degree is odd.
        """
        degree = min(degree, self.N - 1)
        # the complement of a dense graph is easier to draw
        dense = 2 * degree > self.N - 1
        drawn = self.N - 1 - degree if dense else degree
        itself, rng = np.eye(self.N, dtype=bool), self._rng("graph")
        for _ in range(MAX_ATTEMPTS):
            linked = _pair_ends(self.N, drawn, rng)
            if linked is not None:
                graph = (~linked if dense else linked) & ~itself
                return to_device(torch.from_numpy(graph), self.device)
        raise ValueError(
            f"no graph of {self.N} clients with {degree} neighbours each was found: choose another"
            " degree"
        )

    def ring(self) -> Tensor:
        """Return a graph in which clients with adjacent numbers are neighbours."""
        number = torch.arange(self.N, device=self.device)
        distance = (number[:, None] - number[None, :]).abs()
        return (distance == 1) | ((distance == self.N - 1) & (distance > 0))


def _pair_ends(clients: int, degree: int, rng: np.random.Generator) -> np.ndarray | None:
    """Join free ends of edges at random until none is left; return None if the last ones do not fit
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
    """Return the graph as ones and zeros, each client's own entry included  [N, N] float64."""
    return (graph | torch.eye(len(graph), dtype=torch.bool, device=graph.device)).double()


def row_stochastic(graph: Tensor) -> Tensor:
    """Return weights with which each client averages itself and those that it receives from."""
    weights = with_self(graph)
    return weights / weights.sum(dim=1, keepdim=True)


def column_stochastic(graph: Tensor) -> Tensor:
    """Return weights with which each client splits what it has equally among itself and those that
    it sends to.
    """
    weights = with_self(graph)
    return weights / weights.sum(dim=0, keepdim=True)


def metropolis(graph: Tensor) -> Tensor:
    """Return symmetric, doubly stochastic weights on an undirected graph: 1 / (1 + the larger
    degree of the two).
    """
    degree = graph.sum(dim=1).double()
    weights = graph / (1 + torch.maximum(degree[:, None], degree[None, :]))
    return weights + torch.diag(1 - weights.sum(dim=1))


def push_sum(shares: Tensor, mass: Tensor) -> tuple[Tensor, Tensor]:
    """Return one push of column-stochastic `shares` [N, N] in terms of de-biased values
    z_i = u_i / mu_i, and the new masses mu [N].

    u <- P u and mu <- P mu together mean z_i <- sum_j (P_ij mu_j / sum_l P_il mu_l) z_j.
    """
    parts = shares * mass
    return parts / parts.sum(dim=1, keepdim=True), parts.sum(dim=1)


def mix(x: Tensor, weights: Tensor, mask: Tensor, *, renormalise: bool = False) -> Tensor:
    """Mix the rows of x [N, D] by weights [N, N], a block of columns at a time.

    Entries outside a common mask [D] stay each client's own. With masks per sender [N, D] missing
    entries count as zeros or, with `renormalise`, not at all: an entry is then averaged over the
    clients that have it, and is zero if none has.
    """
    out = x.new_empty(x.shape)
    zero, width = x.new_zeros(()), max(1, MIXED_AT_ONCE // len(x))
    for first in range(0, x.shape[1], width):
        place = slice(first, first + width)
        before, present = x[:, place], mask[..., place]
        mixed = weights @ torch.where(present, before, zero)
        if renormalise:
            share = weights @ present.to(x.dtype).expand_as(before)
            mixed = torch.where(share > 0, mixed / share, zero)
        out[:, place] = torch.where(present, mixed, before) if mask.dim() == 1 else mixed
    return out
