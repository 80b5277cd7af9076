"""`fedbabu` against its authors' code, jhoon-oh/FedBABU at e34c15b.

The main loop runs as published, with our cohorts and our batches; the models that it would score
are caught where it scores them. Three rounds, because of its steps in the learning rate: with three
they lie behind the first and the second, hence are a decay by ten in every round. It averages
uniformly, and running statistics along with the body. Fine-tuning is published in a notebook that
cannot be called; the code's own local training does it here, at the protocol's learning rate and
weight decay, where the notebook has 0.001 and none.
"""

from __future__ import annotations

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
from tests.algorithms import plain, toys
from tests.references import nets, scripts
from tests.references.conftest import Get
from tests.references.loaders import epochs, rounds

SIZES = (25, 16, 9, 12, 30, 8)
PROTOCOL: dict[str, Any] = {"lr": 0.1, "lr_decay": 0.1, "momentum": 0.7, "weight_decay": 0.03}
PROTOCOL |= {"participation": 0.5, "weighting": "uniform", "buffers": "global"}
name = nets.headed("linear")


def arguments(fed: Federation) -> Namespace:
    """The protocol in the words of the code."""
    p = fed.protocol
    sizes = {"num_users": fed.N, "frac": 0.5, "epochs": fed.rounds, "server_data_ratio": 0.0}
    steps = {"lr": p.lr, "momentum": p.momentum, "wd": p.weight_decay, "local_ep": p.epochs}
    parts = {"local_upt_part": "body", "aggr_part": "body", "local_bs": p.batch}
    unused = ("unbalanced", "iid", "dataset", "model", "shard_per_user", "results_save")
    rest = {"seed": 0, "test_freq": 1, "gpu": -1, **dict.fromkeys(unused, 0)}
    return Namespace(**sizes, **steps, **parts, **rest)


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
        fed, args, script = run.fed, arguments(run.fed), folder / "main_fed.py"
        held = {c: np.arange(n) for c, n in enumerate(SIZES)}
        given = {"get_data": lambda _: ([0], [0], held, held), "get_model": lambda _: net}
        options = {"args_parser": lambda: args}
        borrowed(folder, {"utils.options": options, "utils.train_utils": given})

        def tune(body_lr: float, head_lr: float) -> Tensor:
            own, rates = [], (body_lr, head_lr)
            for net in main["net_local_list"]:
                local = import_module("models.Update").LocalUpdate(args, idxs=[])
                state, _ = local.train(deepcopy(net), *rates, local_eps=5)
                own.append(nets.join(fed, state, name))
            return torch.stack(own)

        called = scripts.cohorts(fed, fed.rounds)
        tuning = (epochs(fed, c, 3, "finetune") for c in cycle(range(fed.N)))
        feed = chain(scripts.loaders(fed, called), tuning)
        scored, main = scripts.played(monkeypatch, script, fed, name, called, feed)
        return scored, tune

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", False)  # the script sets it
    return drive


@pytest.mark.parametrize("model", list(nets.KINDS))
def test_fedbabu_is_the_authors_code(theirs: Script, model: str) -> None:
    how = {"model": model, "sizes": SIZES, "dtype": torch.float64, "rounds": 1, **PROTOCOL}
    run = toys.run("fedbabu", {"epochs": 0}, **how)
    net = nets.KINDS[model](run.fed, "linear")
    scored, tune = theirs(run, nets.load(run.fed, net, run.fed.new_model(), name))
    assert len(scored) == run.fed.rounds
    for round_ in rounds(run, len(scored)):
        assert plain.apart(scored[round_ - 1], toys.everybody(run)) < 1e-9
    lr = run.fed.lr
    for part, rates in {"model": (lr, lr), "body": (lr, 0.0), "head": (0.0, lr)}.items():
        run.method = build("fedbabu", {"epochs": 5, "part": part})
        assert plain.apart(tune(*rates), toys.everybody(run)) < 1e-9
