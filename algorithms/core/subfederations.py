"""Federations of other clients than those of the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.settings import TrainingProtocol
from repfl.algorithms.engine.client_data import ClientData


def subfederation(fed: Federation, train: Sequence[Tensor]) -> Federation:
    """Return a temporary federation of other clients with the given training indices, with the
    same model, images and protocol, e.g. for pre-training.
    """
    none = [part[:0] for part in train]
    return _other(fed, replace(fed.data, train=train, test=none, val=none), fed.recipe)


def newcomer_federation(fed: Federation, newcomers: ClientData) -> Federation:
    """Return a federation of the unseen clients, with `recipe.newcomers.epochs` local epochs, in
    the last round.
    """
    parts = {name: getattr(newcomers, name) for name in ("train", "test", "val")}
    assert fed.recipe.newcomers is not None
    training = replace(fed.recipe.training, epochs=fed.recipe.newcomers.epochs, steps=None)
    late = _other(fed, replace(fed.data, **parts), replace(fed.recipe, training=training))
    late.begin(fed.round, all_clients=True, due=("newcomers",))
    return late


def _other(fed: Federation, data: ClientData, recipe: TrainingProtocol) -> Federation:
    how: dict[str, Any] = {"device": fed.device, "dtype": fed.dtype, "stack": fed.stack}
    how |= {"precision": fed.precision, "seed": fed.streams.seed}
    return Federation(fed.model, data, recipe, **how)
