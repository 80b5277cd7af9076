"""Ten methods against PFLlib itself: seven agree, and three do once its departures are made here,
too.

How its experiments run here is said in `pfllib.py`.
"""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms import fedpac
from repfl.algorithms.apfl import APFL, DRIFT, slope
from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.method import State
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.fedala import FedALA, draw_subset
from repfl.algorithms.fedbabu import FedBABU
from repfl.algorithms.math import simplex
from tests.algorithms import plain, toys
from tests.references.pfllib import Records, held, ours, right

SAME = 1e-14
APART = 1e-3
"""Relative differences: at most the first is rounding, at least the second is another rule."""


@pytest.mark.parametrize(
    ("method", "name", "kind", "hp", "options"),
    [
        ("local", "local", "Local", {}, {}),
        ("fedavg", "avg", "FedAvg", {}, {}),
        ("fedper", "per", "FedPer", {}, {}),
        ("fedrep", "rep", "FedRep", {"head_epochs": 1, "body_epochs": 2}, {"plocal_epochs": 1}),
        ("lg-fedavg", "lg", "LG_FedAvg", {}, {}),
        ("ditto", "ditto", "Ditto", {"lam": 0.7, "epochs": 1}, {"plocal_epochs": 1, "mu": 0.7}),
    ],
)
def test_methods_are_pfllibs(
    pfllib: Records, method: str, name: str, kind: str, hp: dict[str, Any], options: dict[str, Any]
) -> None:
    run = ours(method, hp)
    server = pfllib(name, kind, run, **options)
    server.train()
    if method != "local":
        server.send_models()
    scored = server.test_metrics_personalized if method == "ditto" else server.test_metrics
    models = held(run, server, "model_per" if method == "ditto" else "model")
    assert plain.apart(models, toys.everybody(run)) < SAME
    assert scored()[2] == right(run)


class AbsentSearch(FedALA):
    """Those who do not take part search too, and keep where they would have started as their own
    model.
    """

    def round(self, state: State, fed: Federation) -> State:
        away = [client for client in range(fed.N) if client not in fed.active_ids]
        if away:
            with fed.as_active(away):
                theta = state["theta"].expand(fed.K, -1)
                state["w"][away], state["weights"][away], apart = self.aggregate(state, fed, theta)
                state["searched"][away] |= apart
        return super().round(state, fed)


@pytest.mark.parametrize(("participation", "method"), [(1.0, FedALA), (0.5, AbsentSearch)])
def test_fedala_is_pfllibs_where_everybody_takes_part_or_searches(
    pfllib: Records, monkeypatch: pytest.MonkeyPatch, participation: float, method: type[FedALA]
) -> None:
    run = ours(method(FedALA.HP()), participation=participation)
    server, fed = pfllib("ala", "FedALA", run, eta=1.0, rand_percent=80, layer_idx=2), run.fed
    searches = iter(range(10**6))

    def first(low: int, high: int) -> int:
        round_, client = divmod(next(searches), fed.N)
        fed.round = round_ + 1
        return int(draw_subset(fed, client, 0.8, "block")[0])

    monkeypatch.setattr(import_module("utils.ALA"), "random", SimpleNamespace(randint=first))
    server.train()
    server.send_models()
    assert plain.apart(held(run, server), toys.everybody(run)) < SAME
    if participation < 1:
        assert plain.apart(held(run, server), toys.everybody(ours("fedala"))) > APART


# -- departures ------------------------------------------------------------------------------------


class NeverSent(FedBABU):
    """Fine-tuning starts from what clients last held: their own body after the last round, or the
    average before it.
    """

    def round(self, state: State, fed: Federation) -> State:
        own = state["theta"].repeat(fed.N, 1)
        after = super().round(state, fed)
        assert fed.trained is not None
        own[fed.active] = fed.trained
        return after | {"unsent": own}

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["unsent"][fed.active]


def test_fedbabu_is_pfllibs_without_its_last_average(pfllib: Records) -> None:
    hp = {"epochs": 3}
    run = ours(NeverSent(FedBABU.HP(**hp)))
    server = pfllib("babu", "FedBABU", run, fine_tuning_epochs=3)
    server.train()
    assert plain.apart(held(run, server), toys.everybody(run)) < SAME
    assert plain.apart(held(run, server), toys.everybody(ours("fedbabu", hp))) > APART


def misled(fed: Federation, counts: Tensor, means: Tensor, variances: Tensor) -> Tensor:
    """Combined heads as PFLlib forms them, from heads as they were trained  [K, K].

    Weights are solved for in one order of the clients and used in another; where one is dropped,
    the others do not grow; and every combination reads the heads that were combined before it.
    """
    spread = (counts / counts.sum(1, keepdim=True))[:, :, None] * means  # [K, classes, F]
    noise, order = variances.diag(), [*range(1, fed.K), 0]
    heads = torch.eye(fed.K)
    for place, client in enumerate(order):
        gaps = (spread[place] - spread).flatten(1)
        found = simplex.least_squares(np.linalg.cholesky((noise + gaps @ gaps.T).numpy()).T)
        heads[client] = torch.from_numpy(found * (found > fedpac.SMALL)) @ heads[order]
    return heads


def unweighted(state: State, counts: Tensor, total: Tensor) -> State:
    """Every client's class means count alike, however many samples they rest on."""
    means, clients = total / counts.clamp(min=1)[:, :, None], (counts > 0).sum(0)
    return {"centroids": means.sum(0) / clients.clamp(min=1)[:, None], "known": clients > 0}


def test_fedpac_is_pfllibs_with_weights_for_other_clients(
    pfllib: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    hp = {"head_lr": None}
    defined = toys.everybody(ours("fedpac", hp, participation=1.0))
    with monkeypatch.context() as replayed:
        replayed.setattr(fedpac, "combination", misled)
        replayed.setattr(fedpac, "renewed_centroids", unweighted)
        run = ours("fedpac", hp, participation=1.0)
    server = pfllib("pac", "FedPAC", run, lamda=1.0)
    server.train()
    server.send_models()
    # two ways to one quadratic form
    assert plain.apart(held(run, server), toys.everybody(run)) < 1e-9
    assert plain.apart(held(run, server), defined) > APART


class Overwritten(APFL):
    """A client's own model trains by itself, alpha takes the slope of both gradients, and the
    mixture replaces the own model.
    """

    def paper_step(self, client: Client, batch: Batch) -> None:
        shared = client.grad(batch)
        client.update(shared)
        own = client.grad(batch, of="v")
        client.update(own, of="v")
        alpha = client.extras["alpha"]
        both = {n: alpha * g + (1 - alpha) * shared[n] for n, g in own.items()}
        self.adapt(client, slope(client, both) + DRIFT * alpha)

    def mixture(self, v: Tensor, w: Tensor, alpha: Tensor) -> Tensor:
        self.mixed = alpha[:, None] * v + (1 - alpha)[:, None] * w
        return self.mixed

    def round(self, state: State, fed: Federation) -> State:
        after = super().round(state, fed)
        after["v"][fed.active] = self.mixed
        return after

    def client_params(self, state: State, fed: Federation) -> Tensor:
        return state["v"][fed.active]


def test_apfl_is_pfllibs_with_the_mixture_in_the_place_of_the_own_model(pfllib: Records) -> None:
    hp = {"alpha": 0.5, "alpha_epochs": 2}
    run = ours(Overwritten(APFL.HP(**hp)))
    server = pfllib("apfl", "APFL", run, alpha=0.5)
    server.train()
    assert plain.apart(held(run, server, "model_per"), toys.everybody(run)) < SAME
    assert plain.apart(held(run, server, "model_per"), toys.everybody(ours("apfl", hp))) > APART
