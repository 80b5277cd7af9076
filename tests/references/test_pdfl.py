"""`dfedpgp` against the implementation that SafeAI-Wshuai/pDFL, at 2a92034, measures DFedPGP with:
its folder dfedpgp.

The main loop runs as published, from the initial models to the scores of the last round, with our
batches and our graphs. It has no push-sum: clients pull bodies and take plain means, ours with
`push_sum=false, graph=pull`. The clip of 10, which is written into its training, is the protocol's;
images are stretched, so that it holds gradients back. The code cannot mix models with running
statistics, and it keeps heads with their clients where they are called `fc` or `classifier`, as
those of its ResNets and VGGs are.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from tests.algorithms import peers, plain, toys
from tests.references import nets
from tests.references.conftest import Get

LOG = logging.getLogger(__name__)
PROTOCOL: dict[str, Any] = {
    "lr": 0.005,
    "lr_decay": 0.7,
    "momentum": 0.6,
    "weight_decay": 0.03,
    "clip": 10.0,
}


class Net(nets.Tiny):
    """`tiny` with its head under a name that the code knows."""

    def __init__(self, fed: Federation) -> None:
        super().__init__(fed)
        self.fc: nn.Module = self.fc2
        del self.fc2

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.features(x))


def name(ours: str) -> str:
    return ours.replace("fc2", "fc")


class Passes:
    """A data loader whose every pass is the next epoch."""

    def __init__(self, fed: Federation, client: int, epochs: int) -> None:
        self.passes = (
            plain.batches(fed, client, t, 1, first=e)
            for t in range(1, fed.rounds + 1)
            for e in range(epochs)
        )

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(next(self.passes))


@pytest.fixture
def code(reference: Get, borrowed: Callable[..., None]) -> Any:
    """The published loop."""
    stubs = {
        "fedml_api.utils.main_flops_counter": dict.fromkeys(
            ("count_training_flops", "count_inference_flops")
        ),
        "fedml_api.model.cv.cnn_meta": {"Meta_net": None},
        "fedml_api.model.cv.resnet": dict.fromkeys(("customized_resnet18", "tiny_resnet18")),
    }
    borrowed(
        reference(
            "SafeAI-Wshuai/pDFL", "2a92034", "fedml_api/standalone/dfedpgp", "fedml_core/trainer"
        ),
        stubs,
    )
    return import_module("fedml_api.standalone.dfedpgp.dfedpgp_api").DFedPGPAPI


def theirs(api: Any, fed: Federation, folder: Path, **phases: float) -> tuple[Tensor, list[float]]:
    """The published loop to its end: everybody's last models [N, D], and the mean accuracy of mixed
    bodies with own heads by round.
    """
    p, clients = fed.protocol, range(fed.N)
    args = Namespace(
        client_num_in_total=fed.N,
        client_num_per_round=2,
        comm_round=fed.rounds,
        cs="random",
        dataset="",
        ci=0,
        **phases,
    )
    vars(args).update(lr_body=p.lr, lr_decay=p.lr_decay, momentum=p.momentum, wd=p.weight_decay)
    net = nets.load(fed, Net(fed), fed.new_model(), name)
    trainer = import_module("fedml_api.standalone.dfedpgp.my_model_trainer").MyModelTrainer(
        net, args, LOG
    )
    loaders = {c: Passes(fed, c, args.head_epochs + args.body_epochs) for c in clients}
    tests = {
        c: [(fed.data.inputs(fed.data.test[c]), fed.data.labels[fed.data.test[c]])] for c in clients
    }
    data = [0, 0, None, None, {c: len(fed.data.train[c]) for c in clients}, loaders, tests, 0]
    loop, last = api(data, "cpu", args, trainer, LOG, str(folder)), {}

    def watched(client: int, train: Callable[..., Any]) -> Callable[..., Any]:
        def call(*handed: Any) -> Any:
            weights, score = train(*handed)
            last[client] = nets.join(fed, weights, name)
            return weights, score

        return call

    loop._benefit_choose = lambda t, c, *_: (
        peers.topology_at(fed, t + 1).pull(2)[c].nonzero().flatten().numpy()
    )
    for c in clients:
        loop.client_list[c].train = watched(c, loop.client_list[c].train)
    loop.train()
    return torch.stack([last[c] for c in clients]), loop.stat_info["person_test_acc_before"]


@pytest.mark.parametrize(("head_epochs", "head_lr"), [(1, 0.005), (2, 0.002)])
def test_dfedpgp_without_push_sum_is_the_published_code(
    code: Any, tmp_path: Path, head_epochs: int, head_lr: float
) -> None:
    stretched = replace(toys.data(peers.SIZES), scale=torch.full((1,), 32 / 255))
    hp = {
        "push_sum": False,
        "graph": "pull",
        "degree": 2,
        "head_epochs": head_epochs,
        "head_lr": head_lr,
    }
    run = toys.run(
        "dfedpgp",
        hp,
        clients_data=stretched,
        dtype=torch.float64,
        evaluation={"every": 1},
        **PROTOCOL,
    )
    phases = {
        "head_epochs": head_epochs,
        "body_epochs": int(run.fed.protocol.epochs),
        "lr_head": head_lr,
    }
    models, accuracy = theirs(code, run.fed, tmp_path, **phases)
    assert plain.apart(models, run.state["w"]) < 1e-9
    assert [value for _, line, value in run.rows if line == "gossiped/mean"] == pytest.approx(
        accuracy, abs=1e-12
    )
