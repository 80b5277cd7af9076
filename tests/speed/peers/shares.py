"""The experiment as a cell of ours, and its clients' data as PFLlib and FL-bench read them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repfl.bench.grid.cell import Cell, build_cell
from repfl.bench.run.clients import clients_of
from repfl.datasets.core.cache import prepared_path
from repfl.datasets.core.recipe import Evaluation, Partition, Recipe, Training
from tests.speed.peers.setting import Setting


def dataset() -> str:
    """CIFAR-10 where it is prepared, else digits of its shape."""
    return "cifar10" if prepared_path("cifar10").exists() else "digits"


def cell(setting: Setting, method: str, seed: int) -> Cell:
    """The experiment as a cell of ours."""
    options = {"alpha": 0.1, "train": setting.train, "test": setting.test}
    training = Training(
        rounds=setting.rounds, epochs=setting.epochs, batch=setting.batch, lr=setting.lr
    )
    recipe = Recipe(
        dataset=dataset(),
        model="cnn4",
        clients=setting.clients,
        partition=Partition(rule="client-dirichlet", options=options),
        training=training,
        evaluation=Evaluation(every=1, points=("post_agg",)),
        participation=setting.participation,
        input=(3, 32, 32),
    )
    return build_cell(method, {}, recipe, seed)


def write(setting: Setting, folder: Path, seed: int) -> None:
    """The clients' data where PFLlib and FL-bench look for them."""
    data = clients_of(cell(setting, "fedavg", seed)).data
    held = [*data.train, *data.test]
    stops = np.cumsum([len(places) for places in held]).tolist()
    ranges = [range(stop - len(places), stop) for stop, places in zip(stops, held, strict=True)]
    images, labels = data.inputs(torch.cat(held)).float(), data.labels[torch.cat(held)]
    _for_pfllib(setting.clients, folder / "dataset/peers", images.numpy(), labels.numpy(), ranges)
    _for_flbench(setting.clients, folder / "data/peers", ranges)
    torch.save((images, labels), folder / "data/peers/images.pt")


def _for_pfllib(clients: int, folder: Path, images: Any, labels: Any, ranges: list[range]) -> None:
    """A file for every client and split."""
    for number, held in enumerate(ranges):
        split, client = divmod(number, clients)
        path = folder / ("train", "test")[split] / f"{client}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        shard = {"x": images[held.start : held.stop], "y": labels[held.start : held.stop]}
        np.savez_compressed(path, data=np.array(shard, dtype=object))


def _for_flbench(clients: int, folder: Path, ranges: list[range]) -> None:
    """Who holds which image; everybody trains and is scored."""
    train, test = ranges[:clients], ranges[clients:]
    own = [{"train": [*t], "val": [], "test": [*s]} for t, s in zip(train, test, strict=True)]
    everybody = list(range(clients))
    separation = {"train": everybody, "test": everybody, "val": everybody, "total": clients}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "args.json").write_text('{"split": "sample"}', encoding="utf-8")
    partition = {"separation": separation, "data_indices": own}
    (folder / "partition.pkl").write_bytes(pickle.dumps(partition))
