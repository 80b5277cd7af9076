"""The experiment as a cell of ours, and its clients' data as PFLlib and FL-bench read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from repfl.bench.grid.cell import Cell, build_cell
from repfl.bench.run.clients import clients_of
from repfl.datasets.core.cache import prepared_path
from repfl.datasets.core.recipe import Evaluation, Partition, Recipe, Training
from tests.references.stand_ins import partition
from tests.speed.peers.setting import Setting


def dataset() -> str:
    """CIFAR-10 where it is prepared, else digits of its shape."""
    return "cifar10" if prepared_path("cifar10").exists() else "digits"


def cell(setting: Setting, method: str, seed: int) -> Cell:
    """The experiment as a cell of ours."""
    options = {"alpha": 0.1, "train": setting.train, "test": setting.test}
    steps = {name: getattr(setting, name) for name in ("rounds", "epochs", "batch", "lr")}
    recipe = Recipe(
        dataset=dataset(),
        model="cnn4",
        clients=setting.clients,
        partition=Partition(rule="client-dirichlet", options=options),
        training=Training(**steps),
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
    shares = zip(ranges[: setting.clients], ranges[setting.clients :], strict=True)
    own = [{"train": [*train], "val": [], "test": [*test]} for train, test in shares]
    partition(folder / "data/peers", own)
    torch.save((images, labels), folder / "data/peers/images.pt")


def _for_pfllib(clients: int, folder: Path, images: Any, labels: Any, ranges: list[range]) -> None:
    """A file for every client and split."""
    for number, held in enumerate(ranges):
        split, client = divmod(number, clients)
        path = folder / ("train", "test")[split] / f"{client}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        shard = {"x": images[held.start : held.stop], "y": labels[held.start : held.stop]}
        np.savez_compressed(path, data=np.array(shard, dtype=object))
