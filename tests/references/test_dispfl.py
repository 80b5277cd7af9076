"""`dis-pfl` and `dfedavgm` against the code of the Dis-PFL paper, rong-dai/DisPFL at e2f47d4: its
folders DisPFL and dpsgd.

Both main loops run as published, from the initial masks to the scores of the last round; the
trainers' numbers of operations are left out. They get our batches, our graphs and, for masks, our
draws: an order of places where they shuffle, a rank of places where they pick. The code
cannot mix models with running statistics. Its global model averages trained models, our `consensus`
mixed ones; neither is compared. `fedml.py` says how its training is clipped.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
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
from tests.algorithms import plain
from tests.references import fedml, nets
from tests.references.conftest import Get
from tests.references.fedml import ours, scores


@pytest.fixture
def code(reference: Get, borrowed: Callable[..., None]) -> None:
    """The published packages."""
    flops = {"count_training_flops": lambda *_, **__: 0, "count_inference_flops": lambda *_: 0}
    stubs = {"model.cv.cnn_meta": {"Meta_net": None}, "utils.main_flops_counter": flops}
    borrowed(
        reference("rong-dai/DisPFL", "e2f47d4", "fedml_api/standalone", "fedml_core/trainer"),
        {f"fedml_api.{name}": held for name, held in stubs.items()},
    )


def theirs(
    folder: str, api: str, fed: Federation, **options: Any
) -> tuple[Any, dict[int, tuple[Any, Any]]]:
    """The published loop to its end, as `fedml.finished` returns it. Where masks need gradients,
    each round's epochs are followed by the batch that masks are renewed with.
    """
    p, package = fed.protocol, f"fedml_api.standalone.{folder}"
    steps = {"epochs": p.epochs, "batch_size": p.batch, "lr": p.lr, "client_optimizer": "sgd"}
    args = fedml.arguments(fed, type="epoch", **steps, **options)
    net = nets.load(fed, nets.Tiny(fed), fed.new_model())
    trainer = import_module(f"{package}.my_model_trainer").MyModelTrainer(net, args)
    trainer.logger = fedml.LOG
    plan = [("batches", epoch) for epoch in range(p.epochs)]
    plan += [] if options.get("dis_gradient_check", True) else [("screen", 0)]
    loop = getattr(import_module(f"{package}.{api.lower()}_api"), f"{api}API")
    return fedml.finished(loop, fed, args, trainer, fedml.loaders(fed, plan))


def rows(fed: Federation, states: list[dict[str, Tensor]]) -> Tensor:
    return torch.stack([nets.join(fed, state) for state in states])


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

    def pick(free: Tensor, count: int, replacement: bool) -> Tensor:
        return next(ranks).masked_fill(free == 0, never).topk(count).indices

    monkeypatch.setattr(torch, "multinomial", pick)


@pytest.mark.parametrize("masks", ["own", "common"])
@pytest.mark.parametrize("regrow", ["random", "gradient"])
def test_dis_pfl_is_the_authors_code(
    code: None, monkeypatch: pytest.MonkeyPatch, regrow: str, masks: str
) -> None:
    hp = {"density": 0.3, "anneal": 0.6, "degree": 2, "regrow": regrow, "masks": masks}
    run = ours("dis-pfl", hp)
    fed = run.fed
    hand_draws(monkeypatch, run)
    flags = {"dis_gradient_check": regrow == "random", "different_initial": masks == "own"}
    flags |= dict.fromkeys(("uniform", "diff_spa", "static", "save_masks"), False)
    how = {"dense_ratio": 0.3, "anneal_factor": 0.6, "erk_power_scale": 1, "active": 1.0}
    loop, ended = theirs("DisPFL", "dispfl", fed, **how, **flags)
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
        None, Namespace(erk_power_scale=1), fedml.LOG
    )
    tensors = {s.name: torch.empty(s.shape) for s in params}
    masks = trainer.init_masks(tensors, trainer.calculate_sparsities(tensors, sparse=density))
    assert {name: int(mask.sum()) for name, mask in masks.items()} == erk_counts(params, density)


def test_dfedavgm_as_it_stands_is_the_codes_decentralised_sgd(code: None) -> None:
    run = ours("dfedavgm", {"degree": 2})
    loop, ended = theirs("dpsgd", "DPSGD", run.fed)
    last = rows(run.fed, [ended[c][1][0] for c in range(run.fed.N)])
    assert plain.apart(last, run.state["w"]) < 1e-9
    assert scores(run, "post_agg") == pytest.approx(loop.stat_info["person_test_acc"], abs=1e-12)
