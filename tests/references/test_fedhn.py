"""pFedHN against its authors' code: the hypernetwork's tensors after six clients have trained."""

from __future__ import annotations

import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.pfedhn import PFedHN
from tests.algorithms import plain, toys
from tests.references.loaders import Passes

if TYPE_CHECKING:
    from tests.references.conftest import Get


def hypernetwork(hyper: Any) -> State:
    """The authors' hypernetwork as ours, whose last layer is all of their last ones."""
    last = [module for name, module in hyper.named_children() if name[0] in "cl"]
    state = {f"hyper/net.{n}": t.clone() for n, t in hyper.mlp.state_dict().items()}
    for part in ("weight", "bias"):
        whole = torch.cat([getattr(module, part).detach() for module in last])
        state[f"hyper/net.{len(hyper.mlp)}.{part}"] = whole
    return state | {"hyper/embed.weight": hyper.embeddings.weight.detach().clone()}


class Nodes:
    """Their clients, with our batches: `called` takes part round after round, one at a time."""

    def __init__(self, fed: Federation, called: list[int]) -> None:
        self.fed, self.called, clients = fed, called, range(fed.N)
        self.train_loaders = [Passes([batch] for batch in self.batches(c)) for c in clients]
        self.test_loaders = self.val_loaders = [plain.batches(fed, c, 1, 1) for c in clients]

    def batches(self, client: int) -> Iterator[tuple[Tensor, Tensor]]:
        for round_, active in enumerate(self.called, 1):
            if active == client:
                yield from plain.batches(self.fed, client, round_, 1)


def test_pfedhn_is_its_authors(
    reference: Get, borrowed: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = reference("AvivSham/pFedHN", "1bc0549", "experiments")
    borrowed(folder, {"experiments.pfedhn.node": {"BaseNodes": None}})
    trainer = import_module("experiments.pfedhn.trainer")

    class Target(trainer.CNNTarget):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:  # its own asks for another order in memory
            x = self.pool(F.relu(self.conv2(self.pool(F.relu(self.conv1(x))))))
            out: Tensor = self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))
            return out

    clients, rounds = 4, 6
    hyper = trainer.CNNHyper(clients, 2, hidden_dim=7, n_hidden=2, n_kernels=2)
    target = Target(n_kernels=2)
    begun = hypernetwork(hyper)

    class Theirs(PFedHN):
        def init(self, fed: Federation) -> State:
            return super().init(fed) | begun

    method = Theirs(Theirs.HP(embedding=2, hidden=7, layers=2, server_lr=0.1))
    shape, data = (3, 32, 32), toys.data((16,) * clients, classes=10)
    net = toys.module(target, shape, classes=10)
    protocol = {"epochs": 1, "batch": 8, "momentum": 0.9, "weight_decay": 5e-5, "lr": 0.05}
    how = {"dtype": torch.float64, "clients_data": data, "shape": shape, "model": net}
    run = toys.run(method, rounds=rounds, participation=1 / clients, **how, **protocol)

    fed, called = run.fed, []
    for round_ in range(1, rounds + 1):
        fed.begin(round_)
        called += fed.active_ids

    turns = iter(called)
    monkeypatch.setattr(random, "choice", lambda _: next(turns))
    monkeypatch.setattr(trainer, "BaseNodes", lambda *_, **__: Nodes(fed, called))
    monkeypatch.setattr(trainer, "CNNHyper", lambda *_, **__: hyper)
    monkeypatch.setattr(trainer, "CNNTarget", lambda *_, **__: target)
    said = {"data_name": "cifar10", "data_path": "", "classes_per_node": 2, "n_kernels": 2}
    said |= {"num_nodes": clients, "steps": rounds, "inner_steps": 2, "optim": "sgd", "bs": 8}
    said |= {"lr": 0.1, "inner_lr": 0.05, "embed_lr": None, "wd": 1e-3, "inner_wd": 5e-5}
    said |= {"embed_dim": 2, "hyper_hid": 7, "n_hidden": 2, "eval_every": 10**9, "seed": 0}
    trainer.train(**said, device=torch.device("cpu"), save_path=tmp_path)
    for name, value in hypernetwork(hyper).items():
        assert plain.apart(value, run.state[name]) < 1e-12, name
        assert plain.apart(value, begun[name]) > 1e-6, name
