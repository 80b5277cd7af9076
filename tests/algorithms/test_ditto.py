"""ditto: limiting cases, a plain transcription, bytes."""

from __future__ import annotations

import pytest
import torch

from tests.algorithms import plain, toys


def test_ditto_without_a_pull_trains_local_models() -> None:
    ditto, local = (
        toys.run(name, hp, model="tiny-bn", participation=0.5)
        for name, hp in (("ditto", {"lam": 0.0}), ("local", {}))
    )
    assert torch.equal(ditto.state["v"], local.state["w"])


@pytest.mark.parametrize("lam", [0.0, 1.0])
@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dittos_global_branch_is_fedavg(lam: float, buffers: str) -> None:
    ditto, fedavg = (
        toys.run(name, hp, model="tiny-bn", buffers=buffers)
        for name, hp in (("ditto", {"lam": lam}), ("fedavg", {}))
    )
    assert all(torch.equal(ditto.state[name], fedavg.state[name]) for name in fedavg.state)


def test_a_pull_of_one_over_the_learning_rate_restarts_every_step_from_the_received_model() -> None:
    run = toys.run("ditto", {"lam": 20.0}, dtype=torch.float64, rounds=1, sizes=(25, 16), lr=0.05)
    received = run.fed.new_model().double()
    for client in (0, 1):
        v = received
        for x, y in plain.batches(run.fed, client, 1, run.fed.protocol.epochs):
            v = received - 0.05 * plain.gradient(run.fed, v, x, y)
        assert plain.apart(v, run.state["v"][client]) < 1e-12


def test_ditto_follows_its_plain_transcription() -> None:
    run = toys.run(
        "ditto",
        {"lam": 0.7, "epochs": 3, "lr": 0.02},
        model="tiny-bn",
        sizes=(25, 16, 9),
        dtype=torch.float64,
        buffers="global",
    )
    fed = run.fed
    w = fed.new_model().double()
    v = [w.clone() for _ in range(3)]
    for round_ in (1, 2, 3):
        for client in range(3):
            for x, y in plain.batches(fed, client, round_, 3):
                g = plain.gradient(fed, v[client], x, y)
                v[client] -= torch.where(
                    fed.params.learnable, 0.02 * (g + 0.7 * (v[client] - w)), 0.0
                )
        ends = [plain.train(fed, w, client, round_)[0] for client in range(3)]
        w = sum(p * end for p, end in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
    assert plain.apart(w, run.state["theta"]) < 1e-9
    assert plain.apart(torch.stack(v), run.state["v"]) < 1e-9
