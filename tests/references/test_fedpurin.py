"""FedPURIN, and FedCAC, pFedSD, FedBN and FedAvg as its tables ran them, against HikariX/FedPURIN
at 2cefe0b, on a network with batch norm.

Its clients train, choose critical entries, sparsify and distil; its groups measure overlaps,
average and hand back. Compared in every round are the trained models, those scored before and after
aggregation, and in the end how often each client held each entry critical. Batches, initial values
and cohorts are ours. Not compared: its partition, its main loop, its counts of traffic, and clients
without data, whom it cannot train. Its groups of FedPURIN and FedCAC know of no absence: a round of
some clients is here a round of a group of these alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from copy import deepcopy
from types import SimpleNamespace as Bag
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from repfl.algorithms.core.scoring import Scores
from repfl.algorithms.engine.rng import Streams
from tests.algorithms import plain, toys
from tests.references import nets
from tests.references.conftest import Get
from tests.references.loaders import Passes, epochs, rounds

Scored = dict[str, Tensor]
SIZES, ROUNDS, BETA, TAU, LAMDA = (12, 7, 24, 1, 9, 17), 5, 3, 0.5, 0.8
SWITCHES: dict[str, Any] = {"exc": "BN", "isGrad": True}
SWITCHES |= dict.fromkeys(("isHessian", "isBN", "HeadEnd", "isLocal"), False)
VARIANTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"hessian": True}, {"isHessian": True}),
    ({"gradient": "delta"}, {"isGrad": False}),
    ({"gradient": "delta", "hessian": True}, {"isGrad": False, "isHessian": True}),
    ({"bn": "masked"}, {"exc": "all"}),
    ({"bn": "full"}, {"exc": "all", "isBN": True}),
    ({"rest": "own"}, {"isLocal": True}),
]
STUBS: dict[str, dict[str, Any]] = {
    "prettytable": {"PrettyTable": None},
    "torch.utils.tensorboard": {"SummaryWriter": object},
    "fling.model": {"get_model": lambda args: deepcopy(args.model)},
    "fling.utils.config_utils": {"save_config_file": None, "compile_config": None},
    "fling.utils.data_utils": {"get_data_transform": None},
    "fling.utils.visualize_utils": {"plot_2d_loss_landscape": None},
}


class Fling:
    """The authors' clients in the authors' group."""

    def __init__(
        self, fed: Federation, client: str, group: str, *, tau: float = TAU, **switches: Any
    ) -> None:
        component, p = importlib.import_module("fling.component"), fed.protocol
        hyper = Bag(**(SWITCHES | switches))
        sgd = {"name": "sgd", "lr": p.lr, "momentum": p.momentum, "weight_decay": p.weight_decay}
        learn = Bag(device="cpu", batch_size=p.batch, local_eps=p.epochs, optimizer=sgd)
        learn.beta, learn.tau, learn.lamda = BETA, tau, LAMDA
        shared = Bag(name="except", keywords=["bn"]) if hyper.exc == "BN" else Bag(name="all")
        sharing = Bag(name=group, aggregation_method="avg", aggregation_parameters=shared)
        sharing.include_non_param, sharing.isLocal = False, hyper.isLocal
        self.args = Bag(
            model=nets.TinyBN(fed),
            learn=learn,
            client=Bag(name=client, client_num=fed.N, val_frac=0),
            server=Bag(name="base_server"),
            group=sharing,
            hyper=hyper,
            other=Bag(resume_path=None),
        )
        self.fed, self.dense = fed, "prev_local_model" if client == "purin_client" else "model"
        self.processed = fed.params.learnable
        if hyper.exc == "BN":
            self.processed = self.processed & ~fed.params.norm
        self.critical = torch.zeros(fed.N, int(self.processed.sum()), dtype=torch.int32)
        silent = Bag(logging=lambda text: None, add_scalar=lambda *scalar: None)
        self.group = component.group.get_group(self.args, silent)
        self.group.server = component.server.get_server(self.args, test_dataset=fed.data.test[0])
        get = component.client.get_client
        self.clients = [
            get(args=self.args, client_id=i, train_dataset=part)
            for i, part in enumerate(fed.data.train)
        ]
        for i, one in enumerate(self.clients):  # its group lets all start from client 0's values
            nets.load(fed, one.model, fed.new_model(i) if i else fed.new_model())
            self.group.append(one)
        self.group.initialize()

    def train(self, round_: int) -> None:
        for i in self.fed.active_ids:
            one, own = self.clients[i], epochs(self.fed, i, round_).passes
            one.train_dataloader = Passes([{"input": x, "class_id": y} for x, y in b] for b in own)
            one.train(lr=None)
            self.critical[i] += getattr(one, "critical_parameter", torch.tensor(0)).int()

    def aggregate(self, round_: int) -> None:
        called = self.fed.active_ids
        if self.args.group.name != "base_group":
            self.group.clients = [self.clients[i] for i in called]
            self.args.client.client_num = len(called)
        self.group.aggregate(round_, called)

    def models(self, clients: Iterable[int], name: str = "model") -> Tensor:
        return torch.stack(
            [nets.join(self.fed, getattr(self.clients[i], name).state_dict()) for i in clients]
        )


@pytest.fixture(autouse=True)
def fling(reference: Get, borrowed: Callable[..., None]) -> None:
    borrowed(reference("HikariX/FedPURIN", "2cefe0b", "fling"), STUBS)


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Scored:
    """Our models that were last scored, by scoring point."""
    seen: Scored = {}
    score = Scores.score

    def keep_and_score(scores: Scores, point: str, models: Any, clients: list[int]) -> None:
        seen[point] = models.clone()
        score(scores, point, models, clients)

    monkeypatch.setattr(Scores, "score", keep_and_score)
    return seen


def first_round(
    method: str, hp: dict[str, Any], *, lr: float = 0.05, participation: float = 0.5
) -> Run:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": SIZES, "dtype": torch.float64}
    protocol = {"lr": lr, "momentum": 0.9, "weight_decay": 1e-3, "participation": participation}
    tallies = {"tallies": ("mask",)}
    return toys.run(method, hp, rounds=1, evaluation=tallies, **how, **protocol)


def agree(run: Run, theirs: Fling, scored: Scored) -> None:
    """Hold our rounds, the first of which is over, against theirs."""
    for round_ in rounds(run, ROUNDS):
        theirs.train(round_)
        assert run.fed.trained is not None
        assert plain.apart(theirs.models(run.fed.active_ids, theirs.dense), run.fed.trained) < 1e-9
        assert plain.apart(theirs.models(run.fed.active_ids), scored["pre_agg"]) < 1e-9
        theirs.aggregate(round_)
        assert plain.apart(theirs.models(range(run.fed.N)), scored["post_agg"]) < 1e-9
    assert "mask" not in run.fed.masks_counted or torch.equal(
        theirs.critical, run.fed.masks_counted["mask"][:, theirs.processed]
    )


@pytest.mark.parametrize("participation", [0.5, 1.0])
def test_fedpurin_is_the_authors_code_while_every_tensor_has_some_effect(
    scored: Scored, participation: float
) -> None:
    run = first_round("fedpurin", {"beta": BETA}, lr=0.005, participation=participation)
    agree(run, Fling(run.fed, "purin_client", "purin_group"), scored)


@pytest.mark.parametrize(("hp", "switches"), VARIANTS)
def test_fedpurin_with_the_codes_cutoff_is_the_authors_code(
    scored: Scored, hp: dict[str, Any], switches: dict[str, Any]
) -> None:
    run = first_round("fedpurin", hp | {"beta": BETA, "cutoff": "code"})
    agree(run, Fling(run.fed, "purin_client", "purin_group", **switches), scored)


@pytest.mark.parametrize("tau", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("ends", [False, True])
def test_fedpurins_default_differs_from_the_authors_code_in_tensors_without_effect_alone(
    tau: float, ends: bool
) -> None:
    """Effects are large here, so that the second-order term counts."""
    fed = first_round("local", {}).fed
    theta, grad = torch.from_numpy(Streams(0).at("entries").standard_normal((2, fed.D)))
    part = {s.name: grad[s.place] for s in fed.params}
    part["conv2.weight"].mul_(1e-13)
    part["fc1.bias"].zero_()
    part["fc1.weight"][3:] = 0
    # how its networks call these layers; it tells them by their names
    known = {"conv1": "pre", "fc1": "hidden", "fc2": "fc"}

    def called(name: str) -> str:
        return ".".join(known.get(word, word) for word in name.split("."))

    grads = nets.split(fed, grad, called)
    layers = nets.load(fed, nets.TinyBN(fed), theta).named_children()
    net = nn.ModuleDict({known.get(name, name): layer for name, layer in layers})
    for hessian in (False, True):
        switches = {"HeadEnd": ends, "isHessian": hessian}
        client = Fling(fed, "purin_client", "purin_group", **switches).clients[0]
        theirs = client.evaluate_critical_parameter_grad(net, grads, tau)[0].bool()
        hp = {"tau": tau, "ends": ends, "hessian": hessian, "grad_dtype": "float32"}
        methods: Any = (build("fedpurin", hp | {"cutoff": cutoff}) for cutoff in ("code", "empty"))
        code, default = (method.critical(fed, theta[None], grad[None])[0] for method in methods)
        dead = fed.params.where(name="conv2.weight") | fed.params.where(name="fc1.bias")
        assert torch.equal(code[fed.params.learnable & ~fed.params.norm], theirs)
        assert torch.equal(default, code & ~dead)


@pytest.mark.parametrize("lr", [0.05, 1e-7])
def test_fedcac_is_the_authors_code_also_where_effects_are_tiny(scored: Scored, lr: float) -> None:
    run = first_round("fedcac", {"beta": BETA}, lr=lr)
    agree(run, Fling(run.fed, "fedcac_client", "fedcac_group", exc="all"), scored)


def test_pfedsd_is_the_authors_code(scored: Scored) -> None:
    run = first_round("pfedsd", {"lam": LAMDA, "temperature": 2.0})
    agree(run, Fling(run.fed, "pfedsd_client", "base_group", tau=2.0, exc="all"), scored)


@pytest.mark.parametrize(("method", "exc"), [("fedbn", "BN"), ("fedavg", "all")])
def test_fedbn_and_fedavg_are_the_authors_code(scored: Scored, method: str, exc: str) -> None:
    run = first_round(method, {})
    agree(run, Fling(run.fed, "base_client", "base_group", exc=exc), scored)
