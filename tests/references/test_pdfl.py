"""`dfedpgp` against the implementation that SafeAI-Wshuai/pDFL, at 2a92034, measures DFedPGP with:
its folder dfedpgp.

The main loop runs as published, from the initial models to the scores of the last round, with our
batches and our graphs. It has no push-sum: clients pull bodies and take plain means, ours with
`push_sum=false, graph=pull`. The code cannot mix models with running statistics, and it keeps heads
with their clients where they are called `fc` or `classifier`, as those of its ResNets and VGGs are.
`fedml.py` says how its training is clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain
from tests.references import fedml, nets
from tests.references.conftest import Get
from tests.references.fedml import ours, scores

name = nets.headed("fc")


@pytest.fixture
def code(reference: Get, borrowed: Callable[..., None]) -> Any:
    """The published loop."""
    unused = {
        "utils.main_flops_counter": ("count_training_flops", "count_inference_flops"),
        "model.cv.cnn_meta": ("Meta_net",),
        "model.cv.resnet": ("customized_resnet18", "tiny_resnet18"),
    }
    parts = ("fedml_api/standalone/dfedpgp", "fedml_core/trainer")
    stubs = {f"fedml_api.{name}": dict.fromkeys(held) for name, held in unused.items()}
    borrowed(reference("SafeAI-Wshuai/pDFL", "2a92034", *parts), stubs)
    return import_module("fedml_api.standalone.dfedpgp.dfedpgp_api").DFedPGPAPI


def theirs(api: Any, fed: Federation, folder: Path, **phases: float) -> tuple[Tensor, list[float]]:
    """The published loop to its end: everybody's last models [N, D], and the mean accuracy of mixed
    bodies with own heads by round.
    """
    args = fedml.arguments(fed, lr_body=fed.protocol.lr, **phases)
    net = nets.load(fed, nets.Tiny(fed, "fc"), fed.new_model(), name)
    kind = import_module("fedml_api.standalone.dfedpgp.my_model_trainer").MyModelTrainer
    trainer, plan = kind(net, args, fedml.LOG), range(args.head_epochs + args.body_epochs)
    loaders = fedml.loaders(fed, [("batches", epoch) for epoch in plan])
    loop, ended = fedml.finished(api, fed, args, trainer, loaders, str(folder))
    last = [nets.join(fed, ended[client][1][0], name) for client in range(fed.N)]
    return torch.stack(last), loop.stat_info["person_test_acc_before"]


@pytest.mark.parametrize(("head_epochs", "head_lr"), [(1, 0.005), (2, 0.002)])
def test_dfedpgp_without_push_sum_is_the_published_code(
    code: Any, tmp_path: Path, head_epochs: int, head_lr: float
) -> None:
    hp = {"push_sum": False, "graph": "pull", "degree": 2}
    run = ours("dfedpgp", hp | {"head_epochs": head_epochs, "head_lr": head_lr})
    phases = {"head_epochs": head_epochs, "body_epochs": run.fed.epochs, "lr_head": head_lr}
    models, accuracy = theirs(code, run.fed, tmp_path, **phases)
    assert plain.apart(models, run.state["w"]) < 1e-9
    assert scores(run, "gossiped") == pytest.approx(accuracy, abs=1e-12)
