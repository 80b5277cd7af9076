"""FedPURIN's equation 5, tried on a small federation of digits.

python paper_tables/fedpurin/studies/propositions.py    # writes propositions.csv of FedPURIN
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from repfl.paper_tables.studies import write
from repfl.paper_tables.studies.digits_toy import ROUNDS, Toy, line, tried


def statements(toy: Toy) -> Iterator[dict[str, Any]]:
    """Equation 5 and what stands for it: the square of the batch's mean gradient instead of the
    mean of squares, in the largest client.
    """
    for round_, models, _ in toy.rounds():
        if round_ not in ROUNDS:
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


if __name__ == "__main__":
    write(__file__, tried(statements))
