"""`dis-pfl` and `dfedavgm` against the code of the Dis-PFL paper, rong-dai/DisPFL at e2f47d4: its
folders DisPFL and dpsgd.

Both main loops run as published, from the initial masks to the scores of the last round; the
trainers' numbers of operations are left out. They get our batches, our graphs and, for masks, our
draws: an order of places where they shuffle, a rank of places where they pick. The clip of 10,
which is written into their training, is the protocol's; images are stretched, so that it holds
gradients back. The code cannot mix models with running statistics. Its global model averages
trained models, our `consensus` mixed ones; neither is compared.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.dis_pfl import DisPFL
from repfl.algorithms.engine.rng import splitmix64
from repfl.algorithms.math.sparse import erk_counts
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


@pytest.fixture
def code(reference: Get, borrowed: Callable[..., None]) -> None:
    """The published packages."""
    flops = {"count_training_flops": lambda *_, **__: 0, "count_inference_flops": lambda *_: 0}
    meta = {
        "fedml_api.model.cv.cnn_meta": {"Meta_net": None},
        "fedml_api.utils.main_flops_counter": flops,
    }
    borrowed(
        reference("rong-dai/DisPFL", "e2f47d4", "fedml_api/standalone", "fedml_core/trainer"), meta
    )


class Passes:
    """A data loader whose every pass has batches of its own."""

    def __init__(self, passes: list[list[tuple[Tensor, Tensor]]]) -> None:
        self.passes = iter(passes)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(next(self.passes))


def ours(method: str, hp: dict[str, Any]) -> Run:
    """Our run, scored in every round."""
    stretched = replace(toys.data(peers.SIZES), scale=torch.full((1,), 32 / 255))
    return toys.run(
        method, hp, clients_data=stretched, dtype=torch.float64, evaluation={"every": 1}, **PROTOCOL
    )


def passes(fed: Federation, client: int, screens: bool) -> Passes:
    """The epochs of all rounds, each round's followed by the batch that masks are renewed with."""
    last = [("screen", 0)] if screens else []
    plan = [("batches", epoch) for epoch in range(int(fed.protocol.epochs))] + last
    return Passes(
        [
            plain.batches(fed, client, t, 1, first=e, stream=s)
            for t in range(1, fed.rounds + 1)
            for s, e in plan
        ]
    )


def arguments(fed: Federation, **options: Any) -> Namespace:
    """The protocol in the words of the code."""
    p = fed.protocol
    sizes = {
        "client_num_in_total": fed.N,
        "client_num_per_round": 2,
        "comm_round": fed.rounds,
        "epochs": p.epochs,
        "batch_size": p.batch,
    }
    steps = {
        "lr": p.lr,
        "lr_decay": p.lr_decay,
        "momentum": p.momentum,
        "wd": p.weight_decay,
        "client_optimizer": "sgd",
        "type": "epoch",
    }
    return Namespace(cs="random", dataset="", ci=0, **sizes, **steps, **options)


def theirs(
    folder: str, api: str, fed: Federation, **options: Any
) -> tuple[Any, dict[int, tuple[Any, Any]]]:
    """The published loop to its end: the object that ran it, and what every client was handed and
    returned in the last round.
    """
    clients, args, package = (
        range(fed.N),
        arguments(fed, **options),
        f"fedml_api.standalone.{folder}",
    )
    net = nets.load(fed, nets.Tiny(fed), fed.new_model())
    trainer = import_module(f"{package}.my_model_trainer").MyModelTrainer(net, args)
    trainer.logger = LOG
    loaders = {c: passes(fed, c, not options.get("dis_gradient_check", True)) for c in clients}
    tests = {
        c: [(fed.data.inputs(fed.data.test[c]), fed.data.labels[fed.data.test[c]])] for c in clients
    }
    data = [0, 0, None, None, {c: len(fed.data.train[c]) for c in clients}, loaders, tests, 0]
    loop = getattr(import_module(f"{package}.{api.lower()}_api"), f"{api}API")(
        data, "cpu", args, trainer, LOG
    )
    loop._benefit_choose = lambda t, c, *_: (
        peers.topology_at(fed, t + 1).pull(2)[c].nonzero().flatten().numpy()
    )

    ended = {}

    def watched(client: int, train: Callable[..., Any]) -> Callable[..., Any]:
        def call(*handed: Any) -> Any:
            ended[client] = handed, train(*handed)
            return ended[client][1]

        return call

    for c in clients:
        loop.client_list[c].train = watched(c, loop.client_list[c].train)
    loop.train()
    return loop, ended


def rows(fed: Federation, states: list[dict[str, Tensor]]) -> Tensor:
    return torch.stack([nets.join(fed, state) for state in states])


def scores(run: Run, point: str) -> list[float]:
    return [value for _, name, value in run.rows if name == f"{point}/mean"]


def hand_draws(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """Let the code's random masks come from our draws: it decides how many entries of which tensor,
    we decide which come first.

    Among weights that are equally small, as those of units that never fire, its sort takes any;
    here it takes the first.
    """
    fed, method, draws = run.fed, cast(DisPFL, run.method), []
    fed.round = 0
    first = method.init(fed)["mask"]
    orders = ((~row[s.place]).long().argsort(stable=True) for row in first for s in fed.params)
    for round_ in range(1, fed.rounds + 1):
        fed.round = round_
        keys = method.keys(fed, "regrow")
        draws += [splitmix64(keys, s.start, s.size)[c] for c in range(fed.N) for s in fed.params]
    ranks, never = iter(draws), torch.iinfo(torch.int64).min
    monkeypatch.setattr(torch, "sort", partial(torch.sort, stable=True))
    monkeypatch.setattr(torch, "randperm", lambda size: next(orders))
    monkeypatch.setattr(
        torch,
        "multinomial",
        lambda free, n, replacement: next(ranks).masked_fill(free == 0, never).topk(n).indices,
    )


@pytest.mark.parametrize("masks", ["own", "common"])
@pytest.mark.parametrize("regrow", ["random", "gradient"])
def test_dis_pfl_is_the_authors_code(
    code: None, monkeypatch: pytest.MonkeyPatch, regrow: str, masks: str
) -> None:
    run = ours(
        "dis-pfl", {"density": 0.3, "anneal": 0.6, "degree": 2, "regrow": regrow, "masks": masks}
    )
    fed, flags = (
        run.fed,
        {"dis_gradient_check": regrow == "random", "different_initial": masks == "own"},
    )
    hand_draws(monkeypatch, run)
    flags |= dict.fromkeys(("uniform", "diff_spa", "static", "save_masks"), False)
    loop, ended = theirs(
        "DisPFL",
        "dispfl",
        fed,
        dense_ratio=0.3,
        anneal_factor=0.6,
        erk_power_scale=1,
        active=1.0,
        **flags,
    )
    handed, returned = zip(*(ended[c] for c in range(fed.N)), strict=True)
    assert torch.equal(rows(fed, [masks for _, masks, _ in handed]).bool(), run.state["sent"])
    assert torch.equal(rows(fed, [masks for masks, *_ in returned]).bool(), run.state["mask"])
    assert plain.apart(rows(fed, [state for _, state, *_ in returned]), run.state["w"]) < 1e-9
    assert scores(run, "gossiped") == pytest.approx(loop.stat_info["new_mask_test_acc"], abs=1e-12)
    assert scores(run, "post_agg") == pytest.approx(loop.stat_info["old_mask_test_acc"], abs=1e-12)


@pytest.mark.parametrize("density", [0.2, 0.5])
def test_tensors_of_a_resnet_are_as_dense_as_in_the_authors_code(
    code: None, monkeypatch: pytest.MonkeyPatch, density: float
) -> None:
    monkeypatch.setattr(torch, "randperm", torch.arange)
    params = models.build("resnet18-gn", channels=3, size=32, classes=10).params
    trainer = import_module("fedml_api.standalone.DisPFL.my_model_trainer").MyModelTrainer(
        None, Namespace(erk_power_scale=1), LOG
    )
    tensors = {s.name: torch.empty(s.shape) for s in params}
    masks = trainer.init_masks(tensors, trainer.calculate_sparsities(tensors, sparse=density))
    assert {name: int(mask.sum()) for name, mask in masks.items()} == erk_counts(params, density)


def test_dfedavgm_as_it_stands_is_the_codes_decentralised_sgd(code: None) -> None:
    run = ours("dfedavgm", {"degree": 2})
    loop, ended = theirs("dpsgd", "DPSGD", run.fed)
    assert (
        plain.apart(rows(run.fed, [ended[c][1][0] for c in range(run.fed.N)]), run.state["w"])
        < 1e-9
    )
    assert scores(run, "post_agg") == pytest.approx(loop.stat_info["person_test_acc"], abs=1e-12)
