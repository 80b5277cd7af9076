"""Estimates of the memory that a cell needs: its method's state, the models of a round's clients,
and a constant per process; or the recorded peak of similar cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from repfl.bench.grid.cell import Cell, canonical
from repfl.bench.grid.methods import entry, hyperparameters, participants
from repfl.bench.grid.recipes import recipe_values, shape_of, stored_recipe
from repfl.bench.run.cost import multiply_adds
from repfl.bench.store.record import Record

if TYPE_CHECKING:
    from repfl.algorithms.engine.client_data import ClientData
    from repfl.algorithms.engine.model import Model
    from repfl.datasets.core.recipe import Recipe

PROCESS = 500 << 20
"""Bytes of a worker process itself: Python, PyTorch, normalised images."""
SHARED = 700 << 20
"""Bytes of a recorded peak that all processes share: libraries and memory-mapped images."""
COHORTS = 6
"""Models of a round's clients in memory at once: received, trained, momentum, gradients, encoded,
averaged.
"""
SMALL_STATE = 1 << 30
"""Bytes of models below which a method's state is estimated without building it."""
TOY_CLIENTS = 7
"""Clients of the federation in which the state is built."""


def needed(cell: Cell, device: str, peaks: Mapping[str, int], keeps_models: bool = False) -> float:
    """Return the bytes that a cell needs, from the peaks of similar cells if there are any."""
    process, shared = (PROCESS, SHARED) if device == "cpu" else (0, 0)
    model = 4 * multiply_adds(*shape_of(cell.recipe)).entries
    clients, cohort = cell.recipe.residents, participants(cell.method, cell.recipe)
    kept_models = 3.0 * clients * model if keeps_models else 0.0
    if peak := peaks.get(_similar_cells(cell.method, cell.options, cell.recipe)):
        return max(peak - shared, process) + kept_models
    if clients * model < SMALL_STATE:
        state = 2.0 * clients * model
    else:
        state = state_bytes(cell.method, canonical(cell.options), canonical(cell.json["recipe"]))
    return process + state + COHORTS * cohort * model + kept_models


def peaks_of(records: Iterable[Record]) -> dict[str, int]:
    """Return the highest recorded peak of cells that differ only in seed and protocol."""
    peaks: dict[str, int] = {}
    for record in records:
        key = _similar_cells(record.cell["method"], record.cell["hp"], record.recipe)
        peaks[key] = max(peaks.get(key, 0), record.origin.peak_memory or 0)
    return peaks


def _similar_cells(method: str, hp: Mapping[str, Any], recipe: Recipe) -> str:
    names = ("dataset", "model", "clients", "participation", "input", "newcomers")
    values = recipe_values(recipe)
    return canonical([method, dict(hp), {name: values.get(name) for name in names}])


@lru_cache(maxsize=256)
def state_bytes(method: str, hp: str, recipe: str) -> float:
    """Return the bytes of a method's state, built for a few clients: every dimension of that length
    scales with the number of clients.
    """
    from repfl.algorithms.core.method import with_hp
    from repfl.algorithms.core.run import Run

    parsed = stored_recipe(recipe)
    model, channels, size, classes = shape_of(parsed)
    network = _model(model, channels, size, classes)
    method_ = with_hp(entry(method).cls, hyperparameters(method, json.loads(hp)))
    clients = parsed.residents
    run = Run(
        method_, parsed, _one_sample_each(network, channels, classes), network,
        seed=0, device="cpu",
    )  # fmt: skip
    try:
        run.start()
    except Exception:  # such as a graph of more neighbours than there are clients
        return 8.0 * clients * network.params.size
    return sum(
        value.numel()
        * value.element_size()
        * (clients / TOY_CLIENTS) ** list(value.shape).count(TOY_CLIENTS)
        for value in run.state.values()
    )


@lru_cache(maxsize=16)
def _model(name: str, channels: int, size: int, classes: int) -> Model:
    from repfl.algorithms import models

    return models.build(name, channels=channels, size=size, classes=classes)


def _one_sample_each(network: Model, channels: int, classes: int) -> ClientData:
    import torch

    from repfl.algorithms.engine.client_data import ClientData
    from repfl.algorithms.models import inputs_of

    index = [torch.arange(1)] * TOY_CLIENTS
    kind, size = inputs_of(network.name), network.shape[-1]
    sample = {"images": (size, size, channels), "signals": (1, size, channels)}
    image = torch.zeros(1, *sample.get(kind, (1, 1, size)), dtype=torch.uint8)
    channels = image.shape[-1]
    return ClientData(
        image.long() if kind == "tokens" else image, torch.zeros(1, dtype=torch.int64),
        index, index, [part[:0] for part in index],
        torch.ones(channels), torch.zeros(channels), classes, kind=kind,
    )  # fmt: skip


def in_words(count: float) -> str:
    """Return bytes in words."""
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"
