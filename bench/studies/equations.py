"""Statements of papers on equations, tried on a small federation.

The toy is declared: scikit-learn's 8x8 digits, ten clients with Dirichlet(0.1) shares of each
class, a network of 48 hidden units in float64, SGD at 0.1 in batches of 32, five epochs a round, no
momentum. A result here shows that a statement can fail or hold, and not that it does so on the
paper's data.

python bench/studies/equations.py    # writes propositions.csv of FedOBP and FedPURIN
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from torch import Tensor
from torch.nn.functional import cross_entropy

CLIENTS, HIDDEN, RATE, BATCH, EPOCHS = 10, 48, 0.1, 32, 5
SMALL_RATE = 0.02
"""Errors of FedOBP's section IV shrink with the step."""
QUANTILE = 0.99
"""Above it FedOBP's scores stay personal."""
ENTRIES = 150
"""Entries of a client whose true loss change is computed."""
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
        for round_ in range(1, 31):
            scores = [(own - server) ** 2 for own in models]
            own = [score > torch.quantile(score, quantile) for score in scores]
            begun = [torch.where(m, a, server) for m, a in zip(own, models, strict=True)]
            models = [
                self.train(a, part, rate) for a, part in zip(begun, self.clients, strict=True)
            ]
            server = (weights[:, None] * torch.stack(models)).sum(0)
            yield round_, models, server


def fedobp(toy: Toy) -> Iterator[dict[str, Any]]:
    """Equations 39 (the global gradient is about the difference to the server) and 19 (its square
    ranks what an entry's replacement costs), by FedOBP's rule and as section IV assumes.
    """
    for rate, small in ((RATE, ""), (SMALL_RATE, f"steps of {SMALL_RATE}: ")):
        for quantile, how in ((QUANTILE, ""), (1.0, "clients start from the server's model: ")):
            yield from approximated(toy, quantile, rate, small + how)


def approximated(toy: Toy, quantile: float, rate: float, how: str) -> Iterator[dict[str, Any]]:
    """Both equations in rounds 1, 3, 10 and 30."""
    for round_, models, server in toy.rounds(quantile, rate):
        if round_ not in (1, 3, 10, 30):
            continue
        cosines, ranks = [], []
        for model in models:
            gap, slope = model - server, toy.gradient(model, toy.everything)
            cosines.append(float(gap @ slope / gap.norm() / slope.norm()))
            base = toy.loss(model, toy.everything)
            entries = toy.draw.choice(len(model), ENTRIES, replace=False)
            true = []
            for entry in entries:
                changed = model.clone()
                changed[entry] = server[entry]
                true.append(abs(float(toy.loss(changed, toy.everything) - base)))
            ranks.append(float(spearmanr((gap**2)[entries].numpy(), true).statistic))
        for equation, quantity, values in (
            ("39", "cosine of gap and global gradient", cosines),
            ("19", "rank correlation of score and true loss change", ranks),
        ):
            yield line(equation, how + quantity, round_, float(np.mean(values)))


def fedpurin(toy: Toy) -> Iterator[dict[str, Any]]:
    """Equation 5 and what stands for it: the square of the batch's mean gradient instead of the
    mean of squares, in the largest client.
    """
    for round_, models, _ in toy.rounds():
        if round_ not in (1, 3, 10, 30):
            continue
        largest = int(np.argmax([len(part) for part in toy.clients]))
        samples, model = toy.clients[largest], models[largest]
        for size in (10, 100):
            batch = samples[torch.tensor(toy.draw.permutation(len(samples))[:size])]
            each = torch.stack([toy.gradient(model, sample[None]) for sample in batch])
            squares, square = (each**2).mean(0), each.mean(0) ** 2
            ratio = float(square.sum() / squares.sum())
            rank = float(spearmanr(squares.numpy(), square.numpy()).statistic)
            yield line("5", f"substitute over F, batch of {len(batch)}", round_, ratio)
            yield line("5", f"rank correlation with F, batch of {len(batch)}", round_, rank)


def line(equation: str, quantity: str, round_: int, value: float) -> dict[str, Any]:
    return {"equation": equation, "quantity": quantity, "round": round_, "value": value}


TRIED = {"fedobp": fedobp, "fedpurin": fedpurin}
SEEDS = (0, 1, 2)


def tried(paper: str, seeds: tuple[int, ...] = SEEDS) -> pd.DataFrame:
    """Return the numbers of a paper's statements, seed by seed."""
    torch.set_num_threads(1)
    parts = [pd.DataFrame(TRIED[paper](Toy(seed))).assign(seed=seed) for seed in seeds]
    return pd.concat(parts, ignore_index=True)


def main() -> None:
    """Write every paper's numbers, and print their means over seeds."""
    for paper in TRIED:
        found = tried(paper)
        path = Path(__file__).parents[2] / "paper_tables" / paper / "propositions.csv"
        found.to_csv(path, index=False, float_format="%.4f", lineterminator="\n")
        print(paper, found.groupby(["equation", "quantity", "round"])["value"].mean(), sep="\n")


if __name__ == "__main__":
    main()
