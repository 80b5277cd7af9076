"""From a cell's recipe to what its clients hold: the engine's view of the data, and facts about it
for the record; and to the run on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repfl.bench.grid.cell import Cell, canonical
from repfl.bench.grid.methods import entry, hyperparameters
from repfl.bench.grid.recipes import recipe_from

if TYPE_CHECKING:
    from repfl.algorithms.core.run import Run
    from repfl.algorithms.engine.client_data import ClientData
    from repfl.algorithms.engine.model import Model
    from repfl.bench.run.task import Options
    from repfl.datasets.core.cache import Prepared
    from repfl.datasets.core.partition import ClientSplits
    from repfl.datasets.core.recipe import Recipe


@dataclass(frozen=True)
class Clients:
    """Data and model of a cell, with their identity."""

    data: ClientData
    model: Model
    fingerprints: Mapping[str, str]
    digest: str
    """SHA-256 of who holds which sample."""
    floor: tuple[float, float]
    """Accuracy of always predicting a client's most frequent class: mean over clients, pooled."""
    samples: int
    """Training samples of all clients together."""
    newcomers: ClientData | None = None
    """Data of the unseen clients; of the fields above only `digest` counts them."""


def clients_of(cell: Cell) -> Clients:
    """Return what the clients of a cell hold."""
    from repfl.datasets.core.cache import open_dataset

    recipe = recipe_from(cell.recipe, "recipe")
    prepared = open_dataset(recipe.dataset)
    dealt = recipe.partition.seed_in(cell.seed)
    late = None if recipe.newcomers is None else cell.seed
    names = ("dataset", "model", "clients", "partition", "norm", "augment", "input", "classes")
    asked = {name: cell.recipe.get(name) for name in (*names, "newcomers")}
    key = canonical([asked, prepared.fingerprints, dealt, late])
    if key not in _LAST:
        while len(_LAST) >= KEPT:
            del _LAST[next(iter(_LAST))]
        _LAST[key] = _clients(recipe, prepared, dealt, late)
    return _LAST[key]


_LAST: dict[str, Clients] = {}
KEPT = 2
"""Cells of one table share their clients, so the last few are kept."""


def _clients(recipe: Recipe, prepared: Prepared, seed: int, late: int | None) -> Clients:
    """`seed` is of the partition, `late` of who joins late, if anybody does."""
    import numpy as np

    from repfl.datasets.core.partition import majority_accuracy, partition
    from repfl.datasets.core.splits import split_off_newcomers

    labels = np.asarray(prepared.labels)
    shares = everybody = partition(prepared, recipe, seed)
    newcomers = None
    if recipe.newcomers is not None and late is not None:
        shares, joining = split_off_newcomers(everybody, labels, recipe.newcomers, late)
        newcomers = _engine_view(recipe, prepared, joining)
    data = _engine_view(recipe, prepared, shares)
    fingerprints = {
        f"{recipe.dataset}/{split}": value for split, value in prepared.fingerprints.items()
    }
    samples = sum(len(part) for part in shares.train)
    return Clients(
        data,
        _model(recipe, data),
        fingerprints,
        everybody.digest,
        majority_accuracy(shares, labels),
        samples,
        newcomers,
    )


def _engine_view(recipe: Recipe, prepared: Prepared, shares: ClientSplits) -> ClientData:
    """Images stay where they are (memory-mapped pages that all processes share); only index lists
    are new.
    """
    import numpy as np
    import torch

    from repfl.algorithms.engine.client_data import ClientData
    from repfl.datasets.core.augment import AUGMENTATIONS

    description = prepared.description
    norm = description.norms[recipe.norm]
    mean, std = np.asarray(norm.mean, dtype=np.float64), np.asarray(norm.std, dtype=np.float64)
    parts = {
        name: [torch.from_numpy(index) for index in getattr(shares, name)]
        for name in ("train", "test", "val")
    }
    return ClientData(
        images=torch.from_numpy(prepared.images),
        labels=torch.from_numpy(np.asarray(prepared.labels)),
        scale=torch.from_numpy(1.0 / (norm.scale * std)),
        shift=torch.from_numpy(-mean / std),
        classes=recipe.classes or len(description.classes),
        shape=recipe.input,
        augment=AUGMENTATIONS[recipe.augment],
        **parts,
    )


def _model(recipe: Recipe, data: ClientData) -> Model:
    from repfl.algorithms import models

    channels, size, _ = data.input_shape
    return models.build(recipe.model, channels=channels, size=size, classes=data.classes)


def make(cell: Cell, clients: Clients, options: Options, kind: type[Run] | None = None) -> Run:
    """Return the run of a cell, not begun; `kind` is a subclass of `Run`."""
    import torch

    from repfl.algorithms.core.run import Run

    method = entry(cell.method).cls(hyperparameters(cell.method, cell.hp))
    recipe = recipe_from(cell.recipe, "recipe")
    dtype = torch.float64 if options.precision == "fp64" else torch.float32
    return (kind or Run)(
        method,
        recipe,
        clients.data,
        clients.model,
        newcomers=clients.newcomers,
        seed=cell.seed,
        device=options.device,
        dtype=dtype,
        stack=options.stack,
        precision=options.precision,
    )
