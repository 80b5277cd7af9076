"""Nine more methods against PFLlib itself: five agree, and four do once its departures are made
here, too (docs/methods).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.per_fedavg import PerFedAvg
from tests.algorithms import plain, toys
from tests.references.pfllib import Records, held, of_server, ours, right
from tests.references.test_pfllib import APART, SAME


def test_fedprox_is_pfllibs(pfllib: Records) -> None:
    run = ours("fedprox", {"mu": 0.7})
    server = pfllib("prox", "FedProx", run, mu=0.7)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    assert plain.apart(run.state["theta"], ours("fedavg").state["theta"]) > APART


@pytest.mark.parametrize("server_lr", [1.0, 0.5])
def test_scaffold_is_pfllibs_if_clients_weigh_alike(pfllib: Records, server_lr: float) -> None:
    run = ours("scaffold", {"server_lr": server_lr}, weighting="uniform")
    server = pfllib("scaffold", "SCAFFOLD", run, server_learning_rate=server_lr)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < 1e-13
    variates = [torch.cat([c.flatten() for c in client.client_c]) for client in server.clients]
    assert plain.apart(torch.stack(variates), run.state["c_own"]) < 1e-13
    other = ours("scaffold", {"server_lr": server_lr})
    assert plain.apart(run.state["theta"], other.state["theta"]) > APART


def test_pfedme_is_pfllibs_which_scores_another_model(pfllib: Records) -> None:
    hp = {"lam": 2.0, "inner_steps": 3, "inner_lr": 0.05, "beta": 0.5}
    run = ours("pfedme", hp, weight_decay=0.001)
    options = {"lamda": 2.0, "K": 3, "p_learning_rate": 0.05, "beta": 0.5}
    server = pfllib("pFedMe", "pFedMe", run, **options)
    server.train()
    assert plain.apart(of_server(run, server), run.state["theta"]) < SAME
    for number in run.fed.active_ids:
        client = server.clients[number]
        scored = zip(client.personalized_params, client.model.parameters(), strict=True)
        assert all(one is other for one, other in scored)


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


def test_moon_is_pfllibs(pfllib: Records) -> None:
    run = ours("moon", {"mu": 2.0, "tau": 0.4})
    server = pfllib("moon", "MOON", run, mu=2.0, tau=0.4)
    server.train()
    last = torch.stack([run.state["last"][client] for client in range(run.fed.N)])
    assert plain.apart(of_server(run, server), run.state["theta"]) < 1e-13
    assert plain.apart(held(run, server, "old_model"), last) < 1e-13
    assert plain.apart(run.state["theta"], ours("fedavg").state["theta"]) > APART


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_fedrod_is_pfllibs(pfllib: Records, gamma: float) -> None:
    """PFLlib has no power of the counts."""
    run = ours("fedrod", {"gamma": gamma})
    server = pfllib("rod", "FedROD", run)
    server.train()
    heads = [[t.flatten() for t in client.head.parameters()] for client in server.clients]
    distances = (
        plain.apart(of_server(run, server), run.state["theta"]),
        plain.apart(torch.stack([torch.cat(head) for head in heads]), run.state["heads"]),
    )
    assert max(distances) < 1e-13 if gamma == 1 else min(distances) > APART
    server.send_models()
    scored = [client.test_metrics()[0] for client in server.clients]
    assert gamma != 1 or scored == right(run)
