"""A client's model and data from a run that kept its models (`--keep-models`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from repfl.bench.errors import UserError, unknown
from repfl.catalog import Plugins, load_plugins
from repfl.results import only

if TYPE_CHECKING:
    from torch import Tensor, nn

    from repfl.api import Run
    from repfl.bench.store.record import Record
    from repfl.bench.store.store import Store


def client_model(
    cell: str | Run, client: int, results: str | Path | None = None, plugins: Plugins = ()
) -> nn.Module:
    """Return a client's model from a run with `keep_models`, as an ordinary module for evaluation.

    Its inputs are normalised images, as `client_data` gives them. `cell` is a run or an id, which
    may be cut short. Kept are the models after aggregation: a recipe that reports `pre_agg` has
    scored others. Of a recipe with newcomers, the other clients are counted from 0. `plugins` are
    the files of a model or data set of your own.
    """
    from repfl.algorithms import models
    from repfl.bench.grid.recipes import shape_of

    load_plugins(plugins)
    record, store = _record(cell, results, client)
    name, channels, size, classes = shape_of(record.recipe)
    tensors = {}
    for key, value in store.models(record).items():
        kind, _, tensor = key.partition("/")
        tensors[tensor] = value if kind == "all" else value[client]
    if name not in models.MODELS:
        raise unknown("model", name, models.MODELS)
    module: nn.Module = models.MODELS[name](channels, size, classes)
    # not strict, since counters and constants of a module are no part of a client's model
    if strange := module.load_state_dict(tensors, strict=False).unexpected_keys:
        raise UserError(f"model {name!r} has no {strange[0]!r}; it has changed since the run")
    return module.eval()


def client_data(
    cell: str | Run,
    client: int,
    split: str = "test",
    results: str | Path | None = None,
    plugins: Plugins = (),
) -> tuple[Tensor, Tensor]:
    """Return a client's normalised images [n, C, H, W] and labels [n]."""
    import torch

    from repfl.bench.grid.cell import from_json
    from repfl.bench.run.clients import clients_of

    load_plugins(plugins)
    record, _ = _record(cell, results, client)
    data = clients_of(from_json(record.cell)).data.to(torch.device("cpu"), torch.float32)
    if split not in ("train", "test", "val"):
        raise unknown("split", split, ("train", "test", "val"))
    index = getattr(data, split)[client]
    return data.inputs(index), data.labels[index]


def _record(cell: str | Run, results: str | Path | None, client: int) -> tuple[Record, Store]:
    """Return a run's record and where it lies, if the run has such a client."""
    from repfl.bench.store.store import Store

    if isinstance(cell, str):
        store = Store(results)
        record = store.get(only(cell, store.ids()))
        assert record is not None  # its id was listed
    else:
        record, store = cell.record, cell.store
    clients = record.recipe.residents
    if client not in range(clients):
        raise UserError(f"client {client!r} is not valid; valid: 0 to {clients - 1}")
    return record, store
