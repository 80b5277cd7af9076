"""Scoring: how many samples of its own each client's model gets right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from repfl.algorithms.core.batches import padded
from repfl.algorithms.core.data import ClientData
from repfl.algorithms.core.layout import Layout
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.ops import EVAL

BATCH = 500


@dataclass(frozen=True)
class Mixture:
    """Predictions of several models, mixed as logits: (weights [K], models [K, D]) each."""

    parts: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Score:
    """Correct and total counts of some clients on one split."""

    clients: Tensor  # [K]
    correct: Tensor  # [K]
    total: Tensor  # [K]


@torch.inference_mode()
def count_correct(
    model: Model,
    layout: Layout,
    models: Tensor | Mixture,
    data: ClientData,
    parts: Sequence[Tensor],
    chunk: int,
) -> Tensor:
    """Correct predictions of every client's model [K, D] on its own index list, in evaluation
    mode  [K].
    """
    mixture = models.parts if isinstance(models, Mixture) else ((None, models),)
    correct = torch.zeros(len(parts), dtype=torch.int64, device=data.labels.device)
    order = sorted((k for k in range(len(parts)) if len(parts[k])), key=lambda k: -len(parts[k]))
    for first in range(0, len(order), chunk):
        members = order[first : first + chunk]
        nets = [
            (None if weight is None else weight[members], layout.split(flat[members]))
            for weight, flat in mixture
        ]
        index = padded([parts[k] for k in members], len(parts[members[0]])).to(data.labels.device)
        lengths = torch.tensor([len(parts[k]) for k in members], device=index.device)[:, None]
        for start in range(0, index.shape[1], BATCH):
            columns = index[:, start : start + BATCH]
            x = data.inputs(columns)
            logits = [
                model.logits(net, x, EVAL)
                if w is None
                else w[:, None, None] * model.logits(net, x, EVAL)
                for w, net in nets
            ]
            hits = torch.stack(logits).sum(0).argmax(2) == data.labels[columns]
            real = torch.arange(start, start + columns.shape[1], device=index.device) < lengths
            correct[members] += (hits & real).sum(1)
    return correct


def summary(score: Score) -> dict[str, float]:
    """Accuracy over clients that have samples: unweighted mean, pooled, standard deviation (ddof 1)
    and mean of the worst tenth.
    """
    held = score.total > 0
    if not bool(held.any()):
        return {}
    own = (score.correct[held].double() / score.total[held].double()).cpu()
    worst = own.sort().values[: max(1, len(own) // 10)]
    return {
        "mean": own.mean().item(),
        "pooled": score.correct.sum().item() / score.total.sum().item(),
        "std": own.std().item() if len(own) > 1 else 0.0,
        "decile": worst.mean().item(),
    }
