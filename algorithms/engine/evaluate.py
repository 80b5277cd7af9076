"""Scoring: how many samples of its own each client's model gets right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from repfl.algorithms.engine.client_data import ClientData, to_device
from repfl.algorithms.engine.metrics import METRICS
from repfl.algorithms.engine.model import ClientModel, Model

BATCH = 500
MAX_NUMBERS = 1 << 29
"""Numbers that a pass over several clients' samples may hold in its widest layer, which is taken
to have 576 per pixel: 2 GiB in single precision.
"""


@dataclass(frozen=True)
class Mixture:
    """Predictions of several models, mixed as logits: (weights [K], models [K, D]) each."""

    parts: tuple[tuple[Tensor, Tensor], ...]


Extras = dict[str, Tensor]
Predict = Callable[[ClientModel, Tensor, Extras], Tensor]
"""The logits of one client's model on a batch  [B, C, H, W] -> [B, classes]."""


@dataclass(frozen=True)
class Predictor(Mixture):
    """Predictions that a method makes by itself. `predict(model, x, extras)` is written for one
    client; `extras` have a row for each client, like the models in `parts`.
    """

    predict: Predict
    extras: Extras


Models = Tensor | Mixture
"""What clients are scored with: a model for each [K, D], or several."""


@dataclass(frozen=True)
class Score:
    """Correct and total counts of some clients on one split."""

    clients: Tensor  # [K]
    correct: Tensor  # [K], on the device until all scores of a round are there
    total: Tensor  # [K]
    metrics: dict[str, Tensor] = field(default_factory=dict)  # [K] each, on the CPU


@torch.inference_mode()
def count_correct(
    model: Model,
    models: Models,
    data: ClientData,
    parts: Sequence[Tensor],
    width: int,
    logits_of: list[list[Tensor]] | None = None,
) -> Tensor:
    """Count the correct predictions of every client's model on its own index list  [K]; add the
    logits to `logits_of`, a list for each client.
    """
    mixture = models.parts if isinstance(models, Mixture) else ((None, models),)
    predict: Predict = models.predict if isinstance(models, Predictor) else plain_logits
    extras = models.extras if isinstance(models, Predictor) else {}
    correct = torch.zeros(len(parts), dtype=torch.int64, device=data.labels.device)
    order = sorted((k for k in range(len(parts)) if len(parts[k])), key=lambda k: -len(parts[k]))
    for first in range(0, len(order), width):
        rows = order[first : first + width]
        where = to_device(torch.tensor(rows), correct.device)
        index = to_device(pad_sequence([parts[k] for k in rows], batch_first=True), correct.device)
        sizes = to_device(torch.tensor([len(parts[k]) for k in rows]), correct.device)
        own = {name: each[where] for name, each in extras.items()}
        for start in range(0, index.shape[1], step := samples_at_once(data, len(rows))):
            part, mixed = index[:, start : start + step], []
            for weight, flat in mixture:
                each = _logits(model, flat[where], data.inputs(part), predict, own)
                mixed.append(each if weight is None else weight[where, None, None] * each)
            logits = torch.stack(mixed).sum(0)
            hits = logits.argmax(2) == data.labels[part]
            real = torch.arange(start, start + part.shape[1], device=index.device) < sizes[:, None]
            correct[where] += (hits & real).sum(1)
            for k, row in enumerate(rows if logits_of is not None else ()):
                logits_of[row].append(logits[k][real[k]].cpu())  # type: ignore[index]
    return correct


def plain_logits(model: ClientModel, x: Tensor, extras: Extras) -> Tensor:
    """Return what the model itself says."""
    return model(x)


def _logits(model: Model, flat: Tensor, x: Tensor, predict: Predict, extras: Extras) -> Tensor:
    """Return the logits of clients' models on their samples  [k, D], [k, B, ...] ->
    [k, B, classes].
    """
    if len(flat) == 1:
        alone = {name: each[0] for name, each in extras.items()}
        return predict(model.bind(model.params.views(flat[0])), x[0], alone)[None]
    forward = torch.vmap(lambda named, x, extras: predict(model.bind(named), x, extras))
    return forward(model.params.views(flat), x, extras)


def samples_at_once(data: ClientData, clients: int) -> int:
    """Return how many samples of every client are scored in one pass."""
    if clients == 1:
        return BATCH
    _, height, width = data.input_shape
    return max(1, min(BATCH, MAX_NUMBERS // (clients * 576 * height * width)))


def measure(
    names: Sequence[str],
    logits: Sequence[list[Tensor]],
    labels: Sequence[Tensor],
    clients: list[int],
) -> dict[str, Tensor]:
    """Return metrics of clients by name, NaN for a client without samples  [K] float64."""
    measured = {name: torch.full((len(clients),), torch.nan).double() for name in names}
    for row, client in enumerate(clients):
        for name, values in measured.items() if logits[row] else ():
            values[row] = METRICS[name].of(torch.cat(logits[row]), labels[row], client)
    return measured


def joined(scores: Sequence[Score]) -> Score:
    """Return the scores of several groups of clients as one."""
    names = scores[0].metrics
    return Score(
        torch.cat([s.clients for s in scores]),
        torch.cat([s.correct for s in scores]),
        torch.cat([s.total for s in scores]),
        {name: torch.cat([s.metrics[name] for s in scores]) for name in names},
    )


def summary(score: Score) -> dict[str, float]:
    """Accuracy over clients that have samples: unweighted mean, pooled, standard deviation (ddof 1)
    and mean of the worst tenth; then the metrics, if they are defined for any client.
    """
    held = score.total > 0
    if not bool(held.any()):
        return {}
    own = (score.correct[held].double() / score.total[held].double()).cpu()
    worst = own.sort().values[: max(1, len(own) // 10)]
    metrics = {n: METRICS[n].averaged(each, score.total) for n, each in score.metrics.items()}
    return {
        "mean": own.mean().item(),
        "pooled": score.correct.sum().item() / score.total.sum().item(),
        "std": own.std().item() if len(own) > 1 else 0.0,
        "decile": worst.mean().item(),
        **{name: value for name, value in metrics.items() if isfinite(value)},
    }
