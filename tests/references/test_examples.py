"""The example methods against published code: four agree, and three do once the departures that
their docstrings name are made here, too.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from tests.algorithms import plain, toys
from tests.algorithms.examples import example
from tests.references.loaders import Passes
from tests.references.pfllib import Library, held, of_server, ours
from tests.references.test_pfllib import APART, SAME

if TYPE_CHECKING:
    from tests.references.conftest import Get

__all__ = ["example"]
Example = Callable[[str], Any]


def test_fedprox_is_pfllibs(pfllib: Library, example: Example) -> None:
    example("fedprox")
    run = ours("fedprox", {"mu": 0.7})
    server = pfllib("prox", "FedProx", run, mu=0.7)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    assert plain.apart(run.state["theta"], ours("fedavg").state["theta"]) > APART


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_scaffold_is_pfllibs_if_clients_weigh_alike(
    pfllib: Library, example: Example, server_lr: float
) -> None:
    example("scaffold")
    run = ours("scaffold", {"server_lr": server_lr}, weighting="uniform")
    server = pfllib("scaffold", "SCAFFOLD", run, server_learning_rate=server_lr)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < 1e-13
    variates = [torch.cat([c.flatten() for c in client.client_c]) for client in server.clients]
    assert plain.apart(torch.stack(variates), run.state["c_own"]) < 1e-13
    other = ours("scaffold", {"server_lr": server_lr})
    assert plain.apart(run.state["theta"], other.state["theta"]) > APART


def test_pfedme_is_pfllibs_which_scores_another_model(pfllib: Library, example: Example) -> None:
    example("pfedme")
    hp = {"lam": 2.0, "inner_steps": 3, "inner_lr": 0.05, "beta": 0.5}
    run = ours("pfedme", hp, weight_decay=0.001)
    options = {"lamda": 2.0, "K": 3, "p_learning_rate": 0.05, "beta": 0.5}
    server = pfllib("pFedMe", "pFedMe", run, **options)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    for number in run.fed.active_ids:
        client = server.clients[number]
        scored = zip(client.personalized_params, client.model.parameters(), strict=True)
        assert all(one is other for one, other in scored)


def test_per_fedavg_of_first_order_is_pfllibs_which_trains_two_times(
    pfllib: Library, example: Example
) -> None:
    class Twice(example("per-fedavg").PerFedAvg):  # type: ignore[misc]
        def local_update(self, fed: Federation, params: Tensor) -> Tensor:
            half: Tensor = super().local_update(fed, params)
            return super().local_update(fed, half)  # type: ignore[no-any-return]

    run = ours(Twice(Twice.HP(alpha=0.05, first_order=True)))
    server = pfllib("peravg", "PerAvg", run)
    for client in server.clients:
        client.batch_size = run.fed.protocol.batch // 2  # two of these make one of ours
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    server.send_models()
    for client in server.clients:
        client.train_one_step()
    assert plain.apart(held(run, server), toys.everybody(run)) < SAME
    second = ours(Twice(Twice.HP(alpha=0.05)))
    assert plain.apart(second.state["theta"], run.state["theta"]) > 1e-4


@pytest.mark.parametrize("after", [True, False])
def test_fedproto_is_pfllibs_with_prototypes_of_trained_models(
    pfllib: Library, example: Example, after: bool
) -> None:
    example("fedproto")
    run = ours("fedproto", {"lam": 0.7}, participation=1.0)
    server = pfllib("proto", "FedProto", run, lamda=0.7)

    def trained(client: Any, train: Callable[[], None]) -> Callable[[], None]:
        return lambda: (train(), client.collect_protos())[1]  # type: ignore[func-returns-value]

    for client in server.clients if after else ():
        client.train = trained(client, client.train)
    server.train()
    distance = plain.apart(held(run, server), run.state["w"])
    assert distance < 1e-13 if after else distance > APART


def test_fedamps_mixtures_are_pfllibs_whose_training_feels_none(
    pfllib: Library, example: Example
) -> None:
    example("fedamp")
    hp = {"alpha": 0.3, "sigma": 2.0}
    run = ours("fedamp", hp | {"lam": 0.0}, participation=1.0)
    server = pfllib("amp", "FedAMP", run, alphaK=0.3, sigma=2.0, lamda=0.2)
    server.train()
    assert plain.apart(held(run, server), run.state["w"]) < SAME
    server.send_models()
    mixtures = run.method.mixture(run.state, run.fed)  # type: ignore[attr-defined]
    assert plain.apart(held(run, server, "client_u"), mixtures) < 1e-13
    assert plain.apart(mixtures, run.state["w"]) > APART
    felt = ours("fedamp", hp, participation=1.0)
    assert plain.apart(run.state["w"], felt.state["w"]) > APART


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
    reference: Get, borrowed: Any, example: Example, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
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

    class Theirs(example("pfedhn").PFedHN):  # type: ignore[misc]
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
