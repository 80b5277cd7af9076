"""Methods against PFLlib itself: twelve agree, and others do once its departures are made here, too
(docs/methods). How its experiments run here is said in `pfllib.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
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
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Client
from repfl.algorithms.engine.client_data import ClientData
from repfl.algorithms.fedala import FedALA, draw_subset
from repfl.algorithms.fedbabu import FedBABU
from repfl.algorithms.math import simplex
from repfl.algorithms.per_fedavg import PerFedAvg
from tests.algorithms import plain, toys
from tests.references.loaders import epochs
from tests.references.pfllib import Records, held, of_server, ours, right

SAME = 1e-14
APART = 1e-3
"""Relative differences: at most the first is rounding, at least the second is another rule."""
Options = dict[str, Any]


@dataclass
class Case:
    """A method of ours and of PFLlib's."""

    method: str
    name: str
    kind: str
    hp: Options = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    protocol: Options = field(default_factory=dict)
    own: Callable[[Run, Any], Tensor] | None = None
    """What PFLlib's clients have, as our state has under a name."""
    of: str = ""
    other: str = "fedavg"
    """A method, with these options, whose global model is another one."""
    other_hp: Options = field(default_factory=dict)

    def __str__(self) -> str:
        return self.method


SCORED = [
    Case("local", "local", "Local"),
    Case("fedavg", "avg", "FedAvg"),
    Case("fedper", "per", "FedPer"),
    Case("fedrep", "rep", "FedRep", {"head_epochs": 1, "body_epochs": 2}, {"plocal_epochs": 1}),
    Case("lg-fedavg", "lg", "LG_FedAvg"),
    Case("ditto", "ditto", "Ditto", {"lam": 0.7, "epochs": 1}, {"plocal_epochs": 1, "mu": 0.7}),
]


@pytest.mark.parametrize("case", SCORED, ids=str)
def test_methods_are_pfllibs(pfllib: Records, case: Case) -> None:
    run = ours(case.method, case.hp)
    server = pfllib(case.name, case.kind, run, **case.options)
    server.train()
    if case.method != "local":
        server.send_models()
    ditto = case.method == "ditto"
    scored = server.test_metrics_personalized if ditto else server.test_metrics
    models = held(run, server, "model_per" if ditto else "model")
    assert plain.apart(models, toys.everybody(run)) < SAME
    assert scored()[2] == right(run)


def variates(run: Run, server: Any) -> Tensor:
    return torch.stack([torch.cat([c.flatten() for c in one.client_c]) for one in server.clients])


def last_models(run: Run, server: Any) -> Tensor:
    return held(run, server, "old_model")


def heads(run: Run, server: Any) -> Tensor:
    parts = [[t.flatten() for t in client.head.parameters()] for client in server.clients]
    return torch.stack([torch.cat(part) for part in parts])


PFEDME = {"lam": 2.0, "inner_steps": 3, "inner_lr": 0.05, "beta": 0.5}
PFEDMES = {"lamda": 2.0, "K": 3, "p_learning_rate": 0.05, "beta": 0.5}
MOON = {"mu": 2.0, "tau": 0.4}


def compared(pfllib: Records, case: Case) -> tuple[Run, Any, float]:
    """Ours and PFLlib's after training, and how far the global models are apart."""
    run = ours(case.method, case.hp, **case.protocol)
    server = pfllib(case.name, case.kind, run, **case.options)
    server.train()
    other = ours(case.other, case.other_hp).state["theta"]
    assert plain.apart(run.state["theta"], other) > APART
    return run, server, plain.apart(of_server(run, server), run.state["theta"])


EXACT = [
    Case("fedprox", "prox", "FedProx", {"mu": 0.7}, {"mu": 0.7}),
    Case("pfedme", "pFedMe", "pFedMe", PFEDME, PFEDMES, {"weight_decay": 0.001}),
]


@pytest.mark.parametrize("case", EXACT, ids=str)
def test_global_models_are_pfllibs(pfllib: Records, case: Case) -> None:
    run, server, distance = compared(pfllib, case)
    assert distance < SAME
    for number in run.fed.active_ids if case.method == "pfedme" else ():  # it scores another model
        client = server.clients[number]
        pairs = zip(client.personalized_params, client.model.parameters(), strict=True)
        assert all(one is other for one, other in pairs)


ROUNDED = [
    Case("moon", "moon", "MOON", MOON, MOON, own=last_models, of="last"),
    # PFLlib has no power of the counts
    Case("fedrod", "rod", "FedROD", own=heads, of="heads", other="fedrod", other_hp={"gamma": 0.5}),
    *(  # with uniform weights; with those of our default it is another model
        Case(
            *("scaffold", "scaffold", "SCAFFOLD", {"server_lr": lr}, {"server_learning_rate": lr}),
            *({"weighting": "uniform"}, variates, "c_own", "scaffold", {"server_lr": lr}),
        )
        for lr in (1.0, 0.5)
    ),
]


@pytest.mark.parametrize("case", ROUNDED, ids=str)
def test_global_models_and_those_of_clients_are_pfllibs(pfllib: Records, case: Case) -> None:
    run, server, distance = compared(pfllib, case)
    assert case.own is not None
    assert max(distance, plain.apart(case.own(run, server), run.state[case.of])) < 1e-13
    if case.method == "fedrod":
        server.send_models()
        assert [client.test_metrics()[0] for client in server.clients] == right(run)


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


def test_per_fedavg_of_first_order_is_pfllibs_which_trains_two_times(pfllib: Records) -> None:
    class Twice(PerFedAvg):
        def local_update(self, fed: Federation, params: Tensor) -> Tensor:
            half: Tensor = super().local_update(fed, params)
            return super().local_update(fed, half)

    run = ours(Twice(Twice.HP(alpha=0.05, first_order=True)))
    server = pfllib("peravg", "PerAvg", run)
    for client in server.clients:
        client.batch_size = run.fed.protocol.batch // 2  # two of these make one of ours
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    server.send_models()
    for client in server.clients:
        client.train_one_step()
    assert plain.apart(held(run, server), toys.everybody(run)) < SAME
    second = ours(Twice(Twice.HP(alpha=0.05)))
    assert plain.apart(second.state["theta"], run.state["theta"]) > 1e-4


@pytest.mark.parametrize("after", [True, False])
def test_fedproto_is_pfllibs_with_prototypes_of_trained_models(
    pfllib: Records, after: bool
) -> None:
    run = ours("fedproto", {"lam": 0.7}, participation=1.0)
    server = pfllib("proto", "FedProto", run, lamda=0.7)

    def trained(client: Any, train: Callable[[], None]) -> Callable[[], None]:
        return lambda: (train(), client.collect_protos())[1]  # type: ignore[func-returns-value]

    for client in server.clients if after else ():
        client.train = trained(client, client.train)
    server.train()
    distance = plain.apart(held(run, server), run.state["w"])
    assert distance < 1e-13 if after else distance > APART


def test_fedamps_mixtures_are_pfllibs_whose_training_feels_none(pfllib: Records) -> None:
    hp = {"alpha": 0.3, "sigma": 2.0}
    run = ours("fedamp", hp | {"lam": 0.0}, participation=1.0)
    server = pfllib("amp", "FedAMP", run, alphaK=0.3, sigma=2.0, lamda=0.2)
    server.train()
    assert plain.apart(held(run, server), run.state["w"]) < SAME
    server.send_models()
    mixtures = run.method.mixture(run.state, run.fed)  # type: ignore[attr-defined]
    assert plain.apart(held(run, server, "client_u"), mixtures) < 1e-13
    assert plain.apart(mixtures, run.state["w"]) > APART
    felt = ours("fedamp", hp, participation=1.0)
    assert plain.apart(run.state["w"], felt.state["w"]) > APART


FIFTHS = (30, 10, 20, 40, 10, 20)
"""Four fifths of each fill whole batches of eight; the others fit into one."""


def with_a_fifth_held_out() -> ClientData:
    """The toy clients, with the last fifth of their samples for validation."""
    data = toys.data(FIFTHS)
    cut = [len(index) * 4 // 5 for index in data.train]
    pairs = list(zip(data.train, cut, strict=True))
    return replace(data, train=[i[:c] for i, c in pairs], val=[i[c:] for i, c in pairs])


@pytest.mark.parametrize("trained", [True, False])
def test_fedfomo_is_pfllibs_if_gains_are_over_the_trained_model(
    pfllib: Records, monkeypatch: pytest.MonkeyPatch, trained: bool
) -> None:
    """PFLlib's gains are over what a client last began to train from. It also sends clients their
    own models, whose gain is zero: with as many models as clients all others travel.
    """
    how: dict[str, Any] = {"clients_data": with_a_fifth_held_out(), "rounds": 4, "lr": 0.02}
    run = toys.run("fedfomo", {"models": len(FIFTHS)}, dtype=torch.float64, **how)
    fed = run.fed
    server = pfllib("fomo", "FedFomo", run, M=len(FIFTHS))
    module = import_module("flcore.clients.clientfomo")

    def read(_: str, client: int, is_train: bool, few_shot: int) -> list[Any]:
        places = torch.cat([fed.data.train[client], fed.data.val[client]])
        samples = fed.data.inputs(places), fed.data.labels[places]
        return [(client, x, y) for x, y in zip(*samples, strict=True)]

    def load(data: list[Any], size: int, drop_last: bool, shuffle: bool) -> Any:
        client = data[0][0]
        if drop_last:
            return epochs(fed, client, len(server.Budget) + 1)
        return [(torch.stack([x for _, x, _ in data]), torch.stack([y for _, _, y in data]))]

    monkeypatch.setattr(module, "read_client_data", read)
    monkeypatch.setattr(module, "DataLoader", load)

    def over_the_trained(client: Any, train: Callable[[], None]) -> Callable[[], None]:
        return lambda: (client.clone_model(client.model, client.old_model), train())[1]  # type: ignore[func-returns-value]

    for client in server.clients if trained else ():
        client.train = over_the_trained(client, client.train)
    server.train()
    distance = plain.apart(held(run, server), run.state["w"])
    assert distance < 1e-9 if trained else distance > 1e-3
    off = ~torch.eye(fed.N, dtype=torch.bool)
    distance = plain.apart(server.P[off].double(), run.state["affinity"][off])
    assert distance < 1e-9 if trained else distance > 1e-3
    assert run.state["affinity"][off].count_nonzero() == fed.N * (fed.N - 1)
