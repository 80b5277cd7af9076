"""Statements of papers on equations, tried on a small federation.

The toy is declared: scikit-learn's 8x8 digits, ten clients with Dirichlet(0.1) shares of each
class, a network of 48 hidden units in float64, SGD at 0.1 in batches of 32, five epochs a round, no
momentum. A result here shows that a statement can fail or hold, and not that it does so on the
paper's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import cross_entropy

CLIENTS, HIDDEN, RATE, BATCH, EPOCHS = 10, 48, 0.1, 32, 5
QUANTILE = 0.99
"""Above it FedOBP's scores stay personal."""
ROUNDS = (1, 3, 10, 30)
"""In which statements are tried."""
SEEDS = (0, 1, 2)
SHAPES = ((HIDDEN, 64), (HIDDEN,), (10, HIDDEN), (10,))


class Toy:
    """Digits, clients and one small network as a flat vector."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        images, labels = load_digits(return_X_y=True)
        self.images, self.labels = torch.tensor(images / 16), torch.tensor(labels)
        parts: list[list[int]] = [[] for _ in range(CLIENTS)]
        for label in range(10):
            members = self.draw.permutation(np.flatnonzero(labels == label))
            cuts = (np.cumsum(self.draw.dirichlet([0.1] * CLIENTS)) * len(members)).astype(int)
            for part, some in zip(parts, np.split(members, cuts[:-1]), strict=True):
                part += some.tolist()
        self.clients = [torch.tensor(part) for part in parts if len(part) >= 8]
        self.everything = torch.cat(self.clients)
        sizes = [int(np.prod(shape)) for shape in SHAPES]
        bound = np.repeat([1 / 8, 1 / 8, HIDDEN**-0.5, HIDDEN**-0.5], sizes)
        self.start = torch.tensor(self.draw.uniform(-bound, bound))
        self.sizes = sizes

    def loss(self, params: Tensor, samples: Tensor) -> Tensor:
        first, bias, last, end = (
            part.view(shape) for part, shape in zip(params.split(self.sizes), SHAPES, strict=True)
        )
        hidden = (self.images[samples] @ first.T + bias).relu()
        return cross_entropy(hidden @ last.T + end, self.labels[samples])

    def gradient(self, params: Tensor, samples: Tensor) -> Tensor:
        params = params.detach().requires_grad_()
        return torch.autograd.grad(self.loss(params, samples), params)[0]

    def train(self, params: Tensor, samples: Tensor, rate: float = RATE) -> Tensor:
        for _ in range(EPOCHS):
            order = samples[torch.tensor(self.draw.permutation(len(samples)))]
            for batch in order.split(BATCH):
                params = params - rate * self.gradient(params, batch)
        return params

    def rounds(
        self, quantile: float = QUANTILE, rate: float = RATE
    ) -> Iterator[tuple[int, list[Tensor], Tensor]]:
        """Yield the round, the clients' models after training and their mean, by FedOBP's rule;
        with quantile 1 all clients start from the mean.
        """
        server, models = self.start, [self.start] * len(self.clients)
        weights = torch.tensor([len(part) / len(self.everything) for part in self.clients])
        for round_ in range(1, ROUNDS[-1] + 1):
            scores = [(own - server) ** 2 for own in models]
            own = [score > torch.quantile(score, quantile) for score in scores]
            begun = [torch.where(m, a, server) for m, a in zip(own, models, strict=True)]
            models = [
                self.train(a, part, rate) for a, part in zip(begun, self.clients, strict=True)
            ]
            server = (weights[:, None] * torch.stack(models)).sum(0)
            yield round_, models, server


def line(equation: str, quantity: str, round_: int, value: float) -> dict[str, Any]:
    """Return one row of a csv file."""
    return {"equation": equation, "quantity": quantity, "round": round_, "value": value}


def tried(
    statements: Callable[[Toy], Iterator[dict[str, Any]]], seeds: tuple[int, ...] = SEEDS
) -> pd.DataFrame:
    """Return the numbers of a paper's statements, seed by seed."""
    torch.set_num_threads(1)
    parts = [pd.DataFrame(statements(Toy(seed))).assign(seed=seed) for seed in seeds]
    return pd.concat(parts, ignore_index=True)
