"""FedFomo against PFLlib, which holds out the last fifth of every client's samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
import torch

from repfl.algorithms.engine.client_data import ClientData
from tests.algorithms import plain, toys
from tests.references.loaders import epochs
from tests.references.pfllib import Records, held

SIZES = (30, 10, 20, 40, 10, 20)
"""Four fifths of each fill whole batches of eight; the others fit into one."""


def with_a_fifth_held_out() -> ClientData:
    """The toy clients, with the last fifth of their samples for validation."""
    data = toys.data(SIZES)
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
    run = toys.run("fedfomo", {"models": len(SIZES)}, dtype=torch.float64, **how)
    fed = run.fed
    server = pfllib("fomo", "FedFomo", run, M=len(SIZES))
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
