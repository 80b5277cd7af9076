"""Metrics beside accuracy, for recipes that ask for them in `evaluation.metrics`.

A metric is a function of one client's logits [n, classes] and labels [n] on the CPU, and the
client's number. It returns NaN where it is undefined; such clients are left out of the average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[[Tensor, Tensor, int], float]
Average = Literal["clients", "samples"]
RESERVED = ("mean", "pooled", "std", "decile")
"""Names of curves of accuracy."""
BINS = 15


class MetricError(ValueError):
    """A metric is declared wrongly."""


@dataclass(frozen=True)
class Metric:
    """One line of the registry."""

    name: str
    title: str
    of: Function
    average: Average
    """Whether each client counts the same, or by its samples."""

    def averaged(self, values: Tensor, samples: Tensor) -> float:
        """Return the average over the clients for which it is defined  [K], [K]."""
        fine = values.isfinite() & (samples > 0)
        weights = samples[fine].double() if self.average == "samples" else fine[fine].double()
        return float((values[fine].double() * weights).sum() / weights.sum())


METRICS: dict[str, Metric] = {}
"""Ours, and those that plug-ins register."""


def register(
    name: str, *, title: str, average: Average = "clients"
) -> Callable[[Function], Function]:
    """Register a metric; `average` says how clients count."""

    def add(function: Function) -> Function:
        if name in METRICS or name in RESERVED:
            raise MetricError(f"metric {name!r} is taken")
        METRICS[name] = Metric(name, title, function, average)
        return function

    return add


@register("loss", title="Cross-entropy", average="samples")
def loss(logits: Tensor, labels: Tensor, client: int) -> float:
    """Return the mean cross-entropy."""
    return float(F.cross_entropy(logits.double(), labels))


@register("balanced-accuracy", title="Balanced accuracy")
def balanced_accuracy(logits: Tensor, labels: Tensor, client: int) -> float:
    """Return the mean recall over the client's classes."""
    right = (logits.argmax(1) == labels).double()
    return sum(float(right[labels == c].mean()) for c in labels.unique()) / len(labels.unique())


@register("macro-f1", title="Macro F1")
def macro_f1(logits: Tensor, labels: Tensor, client: int) -> float:
    """Return the mean F1 over the classes that the client has or that are predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels.numpy(), logits.argmax(1).numpy(), average="macro"))


@register("auc", title="AUC")
def auc(logits: Tensor, labels: Tensor, client: int) -> float:
    """Return the mean area under the ROC curve of each of the client's classes against the rest;
    undefined for a client of one class.
    """
    from sklearn.metrics import roc_auc_score

    shares, classes = logits.double().softmax(1).numpy(), labels.unique().tolist()
    if len(classes) < 2:
        return float("nan")
    areas = [roc_auc_score((labels == c).numpy(), shares[:, c]) for c in classes]
    return float(sum(areas) / len(areas))


@register("calibration-error", title="Expected calibration error", average="samples")
def calibration_error(logits: Tensor, labels: Tensor, client: int) -> float:
    """Return the mean distance between confidence and accuracy over 15 equal bins of confidence,
    weighted by samples.
    """
    confidence, predicted = logits.double().softmax(1).max(1)
    gap = (predicted == labels).double() - confidence
    place = (confidence * BINS).ceil().long().clamp(1, BINS) - 1
    sums = torch.zeros(BINS, dtype=torch.float64).index_add(0, place, gap)
    return float(sums.abs().sum() / len(labels))
