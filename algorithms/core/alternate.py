"""Local training in phases: one part of the model trains, the rest is frozen, then they change
places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation


@dataclass(frozen=True)
class Phase:
    """Some epochs in which only a part of the model trains."""

    part: Tensor  # [D] or [K, D] bool
    epochs: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of `fed.train`: an objective, a learning rate, the models that the
    objective reads.
    """


def in_phases(fed: Federation, start: Tensor, phases: Iterable[Phase]) -> Tensor:
    """Train the active clients phase after phase  [K, D].

    Every phase has an optimiser of its own, so no momentum reaches a frozen entry; the batch order
    goes on where the last phase stopped. BN statistics move in every phase, unless its objective
    leaves them alone: they belong to the forward pass, not to the step.
    """
    theta, epoch = start, 0
    for phase in phases:
        theta = fed.train(
            theta, trainable=phase.part, epochs=phase.epochs, first_epoch=epoch, **phase.options
        ).theta
        epoch += phase.epochs
    fed.trained = theta
    return theta


def local_alt(
    fed: Federation,
    start: Tensor,
    personal: Tensor,
    shared: Tensor,
    *,
    skip_empty: bool = True,
    **options: Any,
) -> Tensor:
    """LocalAlt of Pillutla et al. (2022): every epoch is one pass over the personal entries, then
    one over the shared ones  [K, D].

    `personal` and `shared` [K, D] are disjoint. A client for which one of them is empty has nothing
    to alternate: with `skip_empty` it makes one pass per epoch, hence trains like FedAvg's or
    Local's clients, batch by batch. `options` go to every pass.
    """
    epochs = fed.protocol.epochs
    alternates = personal.any(1) & shared.any(1)  # [K]
    if not skip_empty:
        alternates = torch.ones_like(alternates)
    theta = start.clone()
    for rows in (alternates, ~alternates):
        if bool(rows.any()):
            one, other = personal[rows], shared[rows]
            both = [Phase(one, 1, options), Phase(other, 1, options)]
            phases = both * epochs if rows is alternates else [Phase(one | other, epochs, options)]
            with fed.among(fed.active[rows]):
                theta[rows] = in_phases(fed, start[rows], phases)
    fed.trained = theta
    return theta
