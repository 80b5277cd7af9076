"""FedOBP and its baseline FedDPA against the code of FedOBP's authors: uglyghost/FedOBP_CODE at
d433fcd, uglyghost/FedOBP at b55d0fa.

Their servers, trainer and clients go through whole rounds: scores and merging, local training with
PyTorch's SGD, averaging. Stand-ins are the servers' set-up from files, what they import, the draw
of the cohorts, and the loading of data: their clients get our batches, and all they have in
evaluation mode. Two habits of theirs that our docstrings state are undone: scoring moves the
average of scores over visits (here it is put back), and FedDPA's Fisher information is that of
whichever model was loaded last (here of the client's own). Not compared: accuracies, and batch
norm, whose running statistics their code scores like weights.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from importlib import import_module
from types import SimpleNamespace as Named
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.batches import Schedule, plan_batches
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import rounds

SQUARED, FIRST = ("uglyghost/FedOBP_CODE", "d433fcd"), ("uglyghost/FedOBP", "b55d0fa")
FOREIGN = {
    **dict.fromkeys(("hydra", "hydra.core", "ray.actor", "data", "data.utils"), ()),
    "hydra.core.hydra_config": ("HydraConfig",),
    "omegaconf": ("DictConfig", "OmegaConf"),
    "ray": ("actor",),
    "torchvision": ("transforms",),
    "data.utils.datasets": ("BaseDataset", "DATASETS"),
    "src.utils.models": ("MODELS", "DecoupledModel"),
    "src.utils.tools": (
        *("Logger", "evaluate_model", "fix_random_seed"),
        *("get_optimal_cuda_device", "initialize_data_loaders"),
    ),
}
STUBS: dict[str, dict[str, Any]] = {name: dict.fromkeys(held) for name, held in FOREIGN.items()}
STUBS["src.utils.metrics"] = {"Metrics": Named}
PROTOCOL: dict[str, Any] = {"sizes": (9, 25, 14, 1, 17, 20), "participation": 0.5}
PROTOCOL |= {"skip_single": True, "dtype": torch.float64}
SGD: dict[str, Any] = {"lr": 0.1, "momentum": 0.7, "weight_decay": 0.01}
ROUNDS = 5


@pytest.fixture(autouse=True)
def on_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


theirs = nets.headed("classifier")


def tiny(fed: Federation) -> Any:
    """`tiny` with a last layer called as their option CLS expects."""
    return nets.load(fed, nets.Tiny(fed, "classifier"), fed.new_model(), theirs)


class Loader:
    """What the client in hand iterates over: its next epoch of this round, batches of one sample
    included, or all its samples.
    """

    def __init__(self, fed: Federation, client: Any) -> None:
        self.fed, self.client, self.passes = fed, client, Counter[tuple[int, int]]()

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        fed, who = self.fed, self.client.client_id
        parts = [fed.data.train[who]]
        if self.client.model.training:
            how = (fed.round, 1, self.passes[fed.round, who], fed.protocol.batch)
            schedule = Schedule("batches", *how, skip_single=False)
            self.passes[fed.round, who] += 1
            parts = plan_batches(fed.data, fed.streams, who, schedule).index
        return ((fed.data.inputs(part), fed.data.labels[part]) for part in parts)


def settings(fed: Federation, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """What a client of theirs is made of."""
    common = Named(buffers="global", reset_optimizer_on_global_epoch=True)
    common.batch_size, common.local_epoch = fed.protocol.batch, fed.protocol.epochs
    common.client_side_evaluation = False
    common.test = Named(client=Named(train=False, val=False, test=False))
    made: dict[str, Any] = {"model": tiny(fed), "device": torch.device("cpu")}
    made |= {"args": Named(common=common, **{method: Named(**options)}), "return_diff": False}
    made |= {"optimizer_cls": partial(torch.optim.SGD, **SGD), "lr_scheduler_cls": None}
    parts = [{"train": part, "val": [], "test": []} for part in fed.data.train]
    return made | {"dataset": MagicMock(), "data_indices": parts}


def their_server(fed: Federation, title: str, options: dict[str, Any]) -> Any:
    """A server of theirs, ready for its first round."""
    servers = import_module(f"src.server.{title.lower()}")
    training = import_module("src.utils.trainer")
    client: Any = getattr(servers, f"{title}Client")

    class OwnFisher(client):
        def set_parameters(self, package: dict[str, Any]) -> None:
            self.model.load_state_dict(self.postrain_state_dict[package["client_id"]])
            super().set_parameters(package)

    server: Any = object.__new__(getattr(servers, f"{title}Server"))
    server.model, server.current_epoch = tiny(fed), 0
    server.return_diff = server.verbose = False
    start = [(name, value.data.clone()) for name, value in server.model.named_parameters()]
    server.public_model_params = OrderedDict(start)
    server.client_local_epoches = [fed.protocol.epochs] * fed.N
    states = ("client_optimizer_states", "client_lr_scheduler_states", "client_metrics")
    for memory in ("clients_personal_model_params", *states):
        setattr(server, memory, {who: {} for who in range(fed.N)})
    needs, kind = settings(fed, title.lower(), options), OwnFisher if title == "FedDpa" else client
    server.trainer = training.FLbenchTrainer(server, kind, training.MODE.SERIAL, 0, needs)
    server.trainer.worker.trainloader = Loader(fed, server.trainer.worker)
    return server


def disagreement(run: Run, server: Any) -> float:
    """Largest difference of the global models, of the models that clients trained last, and of the
    models they are scored with.
    """
    fed, client, scored = run.fed, server.trainer.worker, []

    def flat(state: Any) -> Tensor:
        return nets.join(fed, state, theirs)

    averages = deepcopy(getattr(client, "Ig_ema", None))
    for who in range(fed.N):
        client.set_parameters(server.package(who))
        scored.append(flat(client.model.state_dict()))
    client.Ig_ema = averages
    last = [flat(client.postrain_state_dict[who]) for who in range(fed.N)]
    return max(
        plain.apart(flat(server.public_model_params), run.state["theta"]),
        plain.apart(torch.stack(last), run.state["last"]),
        plain.apart(torch.stack(scored), toys.everybody(run)),
    )


def follow(method: str, hp: dict[str, Any], title: str, options: dict[str, Any]) -> float:
    """Largest disagreement over some rounds of ours and theirs side by side."""
    run = toys.run(method, hp, rounds=1, **PROTOCOL, **SGD)
    server, found = their_server(run.fed, title, options), []
    for round_ in rounds(run, ROUNDS):
        assert round_ == 1 or run.fed.logged["personal"] > 0
        server.selected_clients = run.fed.sampled
        server.train_one_round()
        found.append(disagreement(run, server))
    return max(found)


AVERAGED = {"cls": True, "ema": 0.1, "score": "obp_legacy"}


@pytest.mark.parametrize(
    ("code", "hp", "options"),
    [
        (SQUARED, {"q": 0.95}, {"norm": "global"}),
        (SQUARED, {"q": 0.99, "norm": "layer"}, {"norm": "layer"}),
        (SQUARED, {"q": 0.9, "norm": "none", "ema": 0.5}, {"norm": "other", "EMA": True}),
        (SQUARED, {"q": 0.7, "cls": True}, {"norm": "global", "CLS": True}),
        (FIRST, {"q": 0.97, "norm": "layer", "score": "obp_legacy"}, {"norm": "layer"}),
        (FIRST, {"q": 0.8, **AVERAGED}, {"norm": "global", "CLS": True, "EMA": True, "alpha": 0.1}),
    ],
)
def test_fedobp_is_the_authors_code(
    reference: Get, borrowed: Any, code: tuple[str, str], hp: Any, options: dict[str, Any]
) -> None:
    borrowed(reference(*code, "src"), STUBS)
    defaults = {"ig_ratio": hp["q"], "alpha": 0.5, "EMA": False, "CLS": False, "track": False}
    assert follow("fedobp", hp, "FedOBP", defaults | options) < 1e-12


@pytest.mark.parametrize(
    ("method", "bar", "hp"),
    [
        ("feddpa", {"tau": 0.4}, {}),
        ("fedobp", {"q": 0.9}, {"score": "fisher", "quantile_scope": "tensor"}),
    ],
)
def test_feddpa_with_a_quantile_is_the_baseline_of_fedobps_tables(
    reference: Get, borrowed: Any, method: str, bar: dict[str, float], hp: dict[str, Any]
) -> None:
    borrowed(reference(*FIRST, "src"), STUBS)
    (threshold,) = bar.values()
    assert follow(method, bar | hp, "FedDpa", {"fisher_threshold": threshold}) < 1e-12
