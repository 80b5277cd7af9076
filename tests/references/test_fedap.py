"""FedAP (`pool=all`) against microsoft/PersonalizedFL at 441670e.

Theirs: class `fedap` as it is, with its LeNet-5, pretraining, feature statistics, weights, local
training and mixing. Ours: `lenet5`, the batches of both trainings in place of their loaders,
initial values, and images padded to 28x28. Everybody takes part, as the code has it; it knows
neither momentum nor weight decay. Compared: the images of the pretraining, the matrix, and all
models after every round.

* The code merges the unbiased variances of batches; in the exact comparison it is handed a
  `torch.var` that divides by all samples.
* It mixes in single precision; it is handed a `torch.float32` that is double. Its .to("cuda") meets
  images that stay where they are.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms import fedap
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.subfederations import subfederation
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import Batches, exact, rounds

SIZES, PRETRAINING, LAM = (25, 7, 40, 16), 3, 0.3


def pytorch(**instead: Any) -> types.ModuleType:
    """PyTorch for one of their files, with something else under some names."""
    namespace = types.ModuleType("torch")
    namespace.__dict__.update(torch.__dict__, **instead)
    return namespace


@pytest.fixture
def theirs(
    reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Federation], Any]:
    """Their algorithm with our initial values, in doubles, for the clients of a federation."""

    def build(fed: Federation) -> Any:
        held = {"targets": fed.data.labels.numpy(), "__len__": lambda self: len(self.targets)}
        pool, parts = type("Pool", (), held)(), ("alg", "datautil", "network", "util")
        folder = reference("microsoft/PersonalizedFL", "441670e", *parts)
        data = {"get_whole_dataset": lambda name: lambda args: pool}
        core = {"__path__": [str(folder / "alg/core")]}
        borrowed(folder, {"alg.core": core, "datautil.prepare_data": data})
        mixing = importlib.import_module("alg.core.comm")
        monkeypatch.setattr(mixing, "torch", pytorch(float32=torch.float64))
        said = {"alg": "fedap", "dataset": "medmnist", "device": "cpu", "distributed": False}
        said |= {"n_clients": fed.N, "batch": fed.protocol.batch, "lr": fed.protocol.lr}
        args = types.SimpleNamespace(**said, pretrained_iters=1, model_momentum=LAM)
        algorithm = importlib.import_module("alg.fedap").fedap(args)
        for net in (algorithm.server_model, *algorithm.client_model):
            nets.load(fed, net, fed.new_model())
        return algorithm

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(np, "int", int, raising=False)
    return build


def prepare(theirs: Any, fed: Federation, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Their pretraining on our batches of the images that they choose, then their
    weights  [N, N].
    """

    def loader(chosen: Any, **_: Any) -> Batches:
        assert chosen.indices == fedap.pooled_samples(fed, 0.3, "all").tolist()
        lone = subfederation(fed, [torch.tensor(chosen.indices)])
        return exact(plain.batches(lone, 0, 0, PRETRAINING, stream="pretrain"))

    monkeypatch.setattr(torch.utils.data, "DataLoader", loader)
    theirs.set_client_weight([exact(plain.batches(fed, client, 1, 1)) for client in range(fed.N)])
    return torch.from_numpy(theirs.client_weight)


def ours() -> tuple[Any, Tensor]:
    """Our run, and its mixing weights."""
    hp = {"lam": LAM, "pool": "all", "pretrain_epochs": PRETRAINING, "pretrain_lr": 0.05}
    where: dict[str, Any] = {"shape": (1, 28, 28), "clients_data": toys.data(SIZES, classes=11)}
    how = {"dtype": torch.float64, "rounds": 1, "lr": 0.05}
    run = toys.run("fedap", hp, model="lenet5", sizes=SIZES, **how, **where)
    return run, fedap.mixing_weights(run.state["closeness"], run.state["seen"], LAM)


def test_fedap_is_the_authors_code(
    theirs: Callable[[Federation], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mixing = ours()
    fed, algorithm = run.fed, theirs(run.fed)
    of_all = pytorch(var=lambda x, dim: torch.var(x, dim, correction=0))
    monkeypatch.setattr(importlib.import_module("alg.fedap"), "torch", of_all)
    assert plain.apart(prepare(algorithm, fed, monkeypatch), mixing) < 1e-9
    for round_ in rounds(run, 3):
        for client in range(fed.N):
            batches = plain.batches(fed, client, round_, fed.protocol.epochs)
            algorithm.client_train(client, exact(batches), round_)
        algorithm.server_aggre()
        found = torch.stack([nets.join(fed, net.state_dict()) for net in algorithm.client_model])
        assert plain.apart(found, run.state["w"]) < 1e-9


def test_fedap_with_the_authors_variances_of_batches_mixes_almost_alike(
    theirs: Callable[[Federation], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mixing = ours()
    found = prepare(theirs(run.fed), run.fed, monkeypatch)
    assert 1e-9 < plain.apart(found, mixing) < 1e-2
