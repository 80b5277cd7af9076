"""Distances between predictions."""

from __future__ import annotations

from torch import Tensor


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """KL(teacher || student) of tempered softmaxes, per sample  [K, B, classes] twice -> [K, B]."""
    goal, guess = (teacher / temperature).log_softmax(-1), (student / temperature).log_softmax(-1)
    return (goal.exp() * (goal - guess)).sum(-1)
