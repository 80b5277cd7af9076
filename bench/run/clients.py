"""From a cell's recipe to its clients: the engine's view of the data, facts about it for the
record, and the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from repfl.bench.grid.cell import Cell, canonical
from repfl.bench.grid.methods import entry

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
    """Data and model of a cell, with hashes that identify them."""

    data: ClientData
    model: Model
    fingerprints: Mapping[str, str]
    digest: str
    """SHA-256 of which client has which samples."""
    floor: tuple[float, float]
    """Accuracy of always predicting a client's most frequent class: mean over clients, pooled."""
    samples: int
    """Training samples of all clients together."""
    newcomers: ClientData | None = None
    """Data of the unseen clients; of the fields above only `digest` includes them."""


def clients_of(cell: Cell) -> Clients:
    """Return the clients of a cell."""
    from repfl.datasets.core.cache import open_dataset

    recipe = cell.recipe
    prepared = open_dataset(recipe.dataset)
    partition_seed = recipe.partition.seed_in(cell.seed)
    newcomer_seed = None if recipe.newcomers is None else cell.seed
    names = ("dataset", "model", "clients", "partition", "norm", "augment", "input", "classes")
    fields = {name: cell.json["recipe"].get(name) for name in (*names, "public", "newcomers")}
    key = canonical([fields, prepared.fingerprints, partition_seed, newcomer_seed])
    if key not in _CACHE:
        while len(_CACHE) >= MAX_CACHED:
            del _CACHE[next(iter(_CACHE))]
        _CACHE[key] = _clients(recipe, prepared, partition_seed, newcomer_seed)
    return _CACHE[key]


_CACHE: dict[str, Clients] = {}
MAX_CACHED = 2
"""Cells of one table share their clients, so the last few are cached."""


def _clients(recipe: Recipe, prepared: Prepared, seed: int, newcomer_seed: int | None) -> Clients:
    """Return the clients for the seed of the partition; `newcomer_seed` draws the unseen ones."""
    import numpy as np

    from repfl.datasets.core.partition import majority_accuracy, partition
    from repfl.datasets.core.splits import split_off_newcomers

    labels = np.asarray(prepared.labels)
    splits = all_clients = partition(prepared, recipe, seed)
    newcomers = None
    if recipe.newcomers is not None and newcomer_seed is not None:
        splits, newcomer_splits = split_off_newcomers(
            all_clients, labels, recipe.newcomers, newcomer_seed
        )
        newcomers = _engine_view(recipe, prepared, newcomer_splits)
    data = _engine_view(recipe, prepared, splits)
    fingerprints = {
        f"{recipe.dataset}/{split}": value for split, value in prepared.fingerprints.items()
    }
    samples = sum(len(index) for index in splits.train)
    return Clients(
        data,
        _model(recipe, prepared, data.classes),
        fingerprints,
        all_clients.digest,
        majority_accuracy(splits, labels),
        samples,
        newcomers,
    )


def _engine_view(recipe: Recipe, prepared: Prepared, splits: ClientSplits) -> ClientData:
    """Return client data whose images stay in memory-mapped pages that all processes share; only
    index lists are new.
    """
    import numpy as np
    import torch

    from repfl.algorithms.engine.client_data import ClientData
    from repfl.datasets.core.augment import AUGMENTATIONS

    description = prepared.description
    norm = description.norms[recipe.norm]
    mean, std = np.asarray(norm.mean, dtype=np.float64), np.asarray(norm.std, dtype=np.float64)
    public = None if splits.public is None else torch.from_numpy(prepared.images[splits.public])
    parts = {
        name: [torch.from_numpy(index) for index in getattr(splits, name)]
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
        kind=description.kind,
        public=public,
        **parts,
    )


def _model(recipe: Recipe, prepared: Prepared, classes: int) -> Model:
    from repfl.algorithms import models

    channels, size = recipe.input[:2] if recipe.input else prepared.description.model_input
    return models.build(recipe.model, channels=channels, size=size, classes=classes)


def make(cell: Cell, clients: Clients, options: Options, kind: type[Run] | None = None) -> Run:
    """Return the run of a cell, not started; `kind` is a subclass of `Run`."""
    import torch

    from repfl.algorithms.core.method import with_hp
    from repfl.algorithms.core.run import Run

    method = with_hp(entry(cell.method).cls, cell.hp)
    dtype = torch.float64 if options.precision == "fp64" else torch.float32
    return (kind or Run)(
        method,
        cell.recipe,
        clients.data,
        clients.model,
        newcomers=clients.newcomers,
        seed=cell.seed,
        device=options.device,
        dtype=dtype,
        stack=options.stack,
        precision=options.precision,
    )
