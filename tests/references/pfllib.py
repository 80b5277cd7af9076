"""PFLlib's servers (TsingZ0/PFLlib at d832e76), ready to train in the place of runs of ours.

Its own servers and clients run whole experiments: they send, train, aggregate and score. Handed
over are our network and its initial values, the clients' data, who takes part, and the order of
mini-batches. Stand-ins: h5py, cvxpy (our solver), its reader of files. Clients hold whole batches,
since PFLlib leaves out a last batch that is short. Its rounds send first and aggregate last, so
models are compared after one more sending.
"""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.rng import cohort
from repfl.algorithms.math import simplex
from tests.algorithms import toys
from tests.references import nets
from tests.references.loaders import epochs
from tests.references.stand_ins import words

if TYPE_CHECKING:
    from tests.references.conftest import Get

SIZES = (24, 8, 16, 40, 8, 16)
Records = Callable[..., Any]


class Held(list[tuple[Tensor, Tensor]]):
    """A client's samples, as PFLlib reads them from its files."""

    def __init__(self, fed: Federation, client: int, is_train: bool) -> None:
        places = (fed.data.train if is_train else fed.data.test)[client]
        super().__init__(zip(fed.data.inputs(places), fed.data.labels[places], strict=True))
        self.client, self.is_train = client, is_train


class Variable:
    """A point of the simplex that is still to be found."""

    value: np.ndarray

    def __init__(self, size: int) -> None:
        self.size = size

    def __ge__(self, other: object) -> bool:
        return True


def solve(form: tuple[Variable, np.ndarray], _: list[Any]) -> Any:
    """Our solver in the place of cvxpy's, for the one problem that PFLlib has."""
    form[0].value = simplex.least_squares(np.linalg.cholesky(form[1]).T)
    return MagicMock()


CVXPY: dict[str, Any] = {"Variable": Variable, "Problem": solve, "Minimize": lambda form: form}
CVXPY |= {"quad_form": lambda x, matrix: (x, matrix), "sum": lambda x: x}


@pytest.fixture
def pfllib(
    reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Records:
    """PFLlib's server of a method, ready to train for as many rounds as a run of ours had."""
    folder = reference("TsingZ0/PFLlib", "d832e76", "system") / "system"
    (tmp_path / "system").mkdir()
    monkeypatch.chdir(tmp_path / "system")  # it writes beside itself

    def opened(name: str, kind: str, run: Run, **options: Any) -> Any:
        fed = run.fed
        begun: list[Any] = []

        def read(_: str, client: int, is_train: bool, few_shot: int) -> Held:
            return Held(fed, client, is_train)

        def choose(clients: list[Any], count: int, replace: bool = True) -> list[Any]:
            if not count:  # of new clients, before the server is made
                return []
            called = cohort(fed.streams, len(clients), count, len(begun[0].Budget) + 1)
            return [clients[int(client)] for client in called]

        def load(data: Held, size: int, drop_last: bool, shuffle: bool) -> Any:
            if not data.is_train:
                return [(torch.stack([x for x, _ in data]), torch.stack([y for _, y in data]))]
            past = len(begun[0].Budget) if begun else 0  # rounds that are over
            stream = "finetune" if past == run.round else "batches"
            return epochs(fed, data.client, min(past + 1, run.round), stream)

        stand_ins = {"h5py": {"File": MagicMock()}, "cvxpy": CVXPY, "utils.dlg": {"DLG": None}}
        borrowed(folder, {**stand_ins, "utils.data_utils": {"read_client_data": read}})
        server_of = getattr(import_module(f"flcore.servers.server{name}"), kind)
        monkeypatch.setattr(np.random, "choice", choose)
        monkeypatch.setattr(random, "sample", lambda clients, count: clients[1:count] + clients[:1])
        monkeypatch.setattr(import_module("flcore.clients.clientbase"), "DataLoader", load)
        begun.append(server_of(arguments(run, **options), 0))
        return begun[0]

    return opened


def arguments(run: Run, **options: Any) -> Namespace:
    """The protocol of a run in PFLlib's words, with our network and its initial values."""
    fed, p = run.fed, run.fed.protocol
    tiny: Any = nets.load(fed, nets.Tiny(fed), fed.new_model())
    head, tiny.fc2 = tiny.fc2, nn.Identity()
    net = import_module("flcore.trainmodel.models").BaseHeadSplit(tiny, head)
    said: dict[str, Any] = {"num_clients": fed.N, "join_ratio": run.recipe.participation}
    said |= {"num_classes": fed.classes, "global_rounds": run.round - 1, "local_epochs": p.epochs}
    said |= {"batch_size": p.batch, "local_learning_rate": p.lr}
    return words(model=net, **said, **options)


def theirs(name: str) -> str:
    """PFLlib's name of one of our tensors."""
    return name.replace("fc2", "head") if name.startswith("fc2") else f"base.{name}"


def held(run: Run, server: Any, of: str = "model") -> Tensor:
    """The clients' models  [N, D]."""
    states = [getattr(client, of).state_dict() for client in server.clients]
    return torch.stack([nets.join(run.fed, state, theirs) for state in states])


def of_server(run: Run, server: Any) -> Tensor:
    """PFLlib's global model  [D]."""
    return nets.join(run.fed, server.global_model.state_dict(), theirs)


def ours(
    method: Any, hp: dict[str, Any] | None = None, participation: float = 0.5, **protocol: Any
) -> Run:
    """Four rounds of ours."""
    how: dict[str, Any] = {"sizes": SIZES, "dtype": torch.float64, "rounds": 4}
    return toys.run(method, hp, participation=participation, **how, **protocol)


def right(run: Run) -> list[int]:
    """How many test images every client gets right."""
    with run.fed.as_active(range(run.fed.N)):
        return run.fed.count_correct(run.scored_models(), "test")[0].tolist()
