"""Scoring: how many samples of its own each client's model gets right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from repfl.algorithms.core.batches import padded
from repfl.algorithms.core.data import ClientData, sent_together
from repfl.algorithms.core.layout import Layout, Params
from repfl.algorithms.core.model import Model
from repfl.algorithms.core.ops import EVAL

BATCH = 500
WIDEST = 576
"""Numbers that a layer holds of one pixel at most: patches of 64 maps under windows of 3 x 3."""
AT_ONCE = 1 << 29
"""Numbers that a pass over several clients' samples may hold in its widest layer: 2 GiB of them in
single precision."""


@dataclass(frozen=True)
class Mixture:
    """Predictions of several models, mixed as logits: (weights [K], models [K, D]) each."""

    parts: tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True)
class Overlay:
    """Models that are one but for some of their entries, which alone exist for every client."""

    common: Tensor  # [D]
    own: Tensor  # [K, D']
    runs: tuple[slice, ...]
    """Where these lie in a model."""

    def one(self, layout: Layout, client: int) -> Params:
        """A client's model, for reading, where runs are whole tensors."""
        own = self.own[client : client + 1]
        return layout.views(self.common[None]) | layout.views(own, self.runs)

    @property
    def models(self) -> Tensor:
        """All of them  [K, D]."""
        out, start = self.common.repeat(len(self.own), 1), 0
        for run in self.runs:
            size = run.stop - run.start
            out[:, run] = self.own[:, start : start + size]
            start += size
        return out


Models = Tensor | Mixture | Overlay
"""What clients are scored with: models [K, D], or several of each, or such with much in common."""


@dataclass(frozen=True)
class Score:
    """Correct and total counts of some clients on one split."""

    clients: Tensor  # [K]
    correct: Tensor  # [K], on the device until all scores of a round are there
    total: Tensor  # [K]


@torch.inference_mode()
def count_correct(
    model: Model,
    layout: Layout,
    models: Models,
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
    groups = [order[first : first + chunk] for first in range(0, len(order), chunk)]
    arrived = _arrived(groups, parts, correct.device)
    for own, (members, index, lengths) in zip(groups, arrived, strict=True):
        nets = [
            (None if weight is None else weight[members], _named(layout, flat, own, members))
            for weight, flat in mixture
        ]
        width = samples_at_once(data, len(members))
        for start in range(0, index.shape[1], width):
            columns = index[:, start : start + width]
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


def _named(layout: Layout, models: Tensor | Overlay, own: list[int], members: Tensor) -> Params:
    """The models of some rows [N, D] by their tensors: copies, but of a single one."""
    if isinstance(models, Overlay):
        return models.one(layout, *own)
    if len(own) == 1:
        return layout.views(models[own[0] : own[0] + 1])
    return layout.split(models[members])


def samples_at_once(data: ClientData, clients: int) -> int:
    """Samples of every client that are scored in one pass, within the memory that several clients
    may take together.
    """
    if clients == 1:
        return BATCH
    _, height, width = data.input_shape
    return max(1, min(BATCH, AT_ONCE // (clients * WIDEST * height * width)))


def _arrived(
    groups: list[list[int]], parts: Sequence[Tensor], device: torch.device
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Groups of clients on a device, by one copy: who they are, their samples padded to a common
    length, how many each has.
    """
    listed = [torch.tensor(members) for members in groups]
    index = [padded([parts[k] for k in own], len(parts[own[0]])) for own in groups]
    lengths = [torch.tensor([len(parts[k]) for k in own])[:, None] for own in groups]
    arrived = sent_together([*listed, *index, *lengths], device)
    many = len(groups)
    return zip(arrived[:many], arrived[many : 2 * many], arrived[2 * many :], strict=True)


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
