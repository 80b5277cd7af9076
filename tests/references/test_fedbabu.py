"""`fedbabu` against its authors' code, jhoon-oh/FedBABU at e34c15b.

The main loop runs as published, with our cohorts and our batches; the models that it would score
are caught where it scores them. Three rounds, because of its steps in the learning rate: with three
they lie behind the first and the second, hence are a decay by ten in every round. It averages
uniformly, and running statistics along with the body. Fine-tuning is published in a notebook that
cannot be called; the code's own local training does it here, at the protocol's learning rate and
weight decay, where the notebook has 0.001 and none.
"""

from __future__ import annotations

import runpy
from argparse import Namespace
from collections.abc import Callable
from copy import deepcopy
from importlib import import_module
from itertools import chain, cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.rng import cohort
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import epochs

SIZES = (25, 16, 9, 12, 30, 8)
PROTOCOL: dict[str, Any] = {
    "lr": 0.1,
    "lr_decay": 0.1,
    "momentum": 0.7,
    "weight_decay": 0.03,
    "participation": 0.5,
}


def name(ours: str) -> str:
    return ours.replace("fc2", "linear")


class Headed(nn.Module):
    """A network whose head has the name by which the code knows heads."""

    features: Callable[[Tensor], Tensor]
    fc2: nn.Linear

    def __init__(self, fed: Federation) -> None:
        super().__init__(fed)
        self.linear = self.fc2
        del self.fc2

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(self.features(x))


class Net(Headed, nets.Tiny): ...


class NetBN(Headed, nets.TinyBN): ...


def arguments(fed: Federation) -> Namespace:
    """The protocol in the words of the code."""
    p = fed.protocol
    sizes = {
        "num_users": fed.N,
        "frac": 0.5,
        "epochs": fed.rounds,
        "local_ep": p.epochs,
        "local_bs": p.batch,
        "server_data_ratio": 0.0,
    }
    steps = {
        "lr": p.lr,
        "momentum": p.momentum,
        "wd": p.weight_decay,
        "local_upt_part": "body",
        "aggr_part": "body",
    }
    folders = dict.fromkeys(
        ("unbalanced", "iid", "dataset", "model", "shard_per_user", "results_save"), 0
    )
    return Namespace(seed=0, test_freq=1, gpu=-1, **sizes, **steps, **folders)


Tune = Callable[[float, float], Tensor]
"""The published local training, for five epochs from everybody's last model: learning rates of body
and head -> models  [N, D].
"""
Script = Callable[[Run, nn.Module], tuple[Tensor, Tune]]


@pytest.fixture
def theirs(
    reference: Get, borrowed: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Script:
    """The published script to its end: what everybody is scored with after every round
    [ROUNDS, N, D], and what can be made of it.
    """
    folder = reference("jhoon-oh/FedBABU", "e34c15b", "main_fed.py", "models")

    def drive(run: Run, net: nn.Module) -> tuple[Tensor, Tune]:
        fed, args, scored = run.fed, arguments(run.fed), []
        held = {c: np.arange(n) for c, n in enumerate(SIZES)}
        given = {"get_data": lambda _: ([0], [0], held, held), "get_model": lambda _: net}
        borrowed(
            folder, {"utils.options": {"args_parser": lambda: args}, "utils.train_utils": given}
        )

        def score(net: nn.Module, *_: Any, **__: Any) -> tuple[float, float]:
            scored.append(nets.join(fed, net.state_dict(), name))
            return 0.0, 0.0

        def tune(body_lr: float, head_lr: float) -> Tensor:
            own = [
                update.LocalUpdate(args, idxs=[]).train(
                    deepcopy(net), body_lr, head_lr, local_eps=5
                )
                for net in main["net_local_list"]
            ]
            return torch.stack([nets.join(fed, state, name) for state, _ in own])

        update = import_module("models.Update")
        called = [
            cohort(fed.streams, fed.N, fed.N // 2, t).tolist() for t in range(1, fed.rounds + 1)
        ]
        loaders = [epochs(fed, c, t) for t, clients in enumerate(called, 1) for c in clients]
        tuning = (epochs(fed, c, 3, "finetune") for c in cycle(range(fed.N)))
        cohorts, feed = iter(called), chain(loaders, tuning)
        monkeypatch.setattr(np.random, "choice", lambda *_, **__: next(cohorts))
        monkeypatch.setattr(update, "DataLoader", lambda *_, **__: next(feed))
        monkeypatch.setattr(import_module("models.test"), "test_img_local", score)
        main = runpy.run_path(str(folder / "main_fed.py"), run_name="__main__")
        return torch.stack(scored).view(fed.rounds, fed.N, fed.D), tune

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)  # the script sets it
    return drive


@pytest.mark.parametrize(("model", "net"), [("tiny", Net), ("tiny-bn", NetBN)])
def test_fedbabu_is_the_authors_code(
    theirs: Script, model: str, net: Callable[[Federation], nn.Module]
) -> None:
    more = PROTOCOL | {"weighting": "uniform", "buffers": "global"}
    run = toys.run(
        "fedbabu", {"epochs": 0}, model=model, sizes=SIZES, dtype=torch.float64, rounds=1, **more
    )
    rounds, tune = theirs(run, nets.load(run.fed, net(run.fed), run.fed.new_model(), name))
    for round_, scored in enumerate(rounds):
        if round_:
            run.step()
        assert plain.apart(scored, toys.everybody(run)) < 1e-9
    lr = run.fed.lr
    for part, rates in {"model": (lr, lr), "body": (lr, 0.0), "head": (0.0, lr)}.items():
        run.method = build("fedbabu", {"epochs": 5, "part": part})
        assert plain.apart(tune(*rates), toys.everybody(run)) < 1e-9
