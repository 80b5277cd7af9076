"""dfedpgp with push-sum against a plain transcription; published code has none."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.run import Run
from tests.algorithms import peers, plain, toys

DOUBLE: dict[str, Any] = {"dtype": torch.float64, "sizes": peers.SIZES}
SGD = {"momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9}


def body_phase(run: Run, w: Tensor, client: int, round_: int, mass: float) -> Tensor:
    """SGD on u = mass * z, gradients and decay taken at z; returns z with the untouched head."""
    w, p, buffer = w.clone(), run.fed.protocol, torch.zeros_like(w)
    body = run.fed.params.learnable & ~run.fed.params.head
    u = mass * w
    for x, y in plain.batches(run.fed, client, round_, 3, first=2):
        buffer = p.momentum * buffer + plain.gradient(run.fed, w, x, y) + p.weight_decay * w
        u[body] -= p.lr * p.lr_decay ** (round_ - 1) * buffer[body]
        w[body] = u[body] / mass
    return w


@pytest.mark.parametrize("order", ["gossip-train", "train-gossip"])
def test_dfedpgp_follows_its_plain_transcription(order: str) -> None:
    hp: dict[str, Any] = {"degree": 2, "graph": "push", "push_sum": True, "order": order}
    hp |= {"head_lr": 0.02, "head_epochs": 2, "body_epochs": 3}
    run = toys.run("dfedpgp", hp, model="tiny-bn", **DOUBLE, **SGD)
    fed = run.fed
    shared = fed.params.learnable & ~fed.params.head
    z, mass = [fed.new_model() for _ in range(fed.N)], [1.0] * fed.N
    for round_ in (1, 2, 3):
        hears = peers.topology_at(fed, round_).graph("push", 2)
        for step in order.split("-"):
            if step == "train":
                of_head: dict[str, Any] = {"trainable": fed.params.head, "loss": plain.still}
                of_head |= {"epochs": 2, "lr": 0.02 * 0.9 ** (round_ - 1)}
                z = [plain.train(fed, z[i], i, round_, **of_head)[0] for i in range(fed.N)]
                z = [body_phase(run, z[i], i, round_, mass[i]) for i in range(fed.N)]
                continue
            gives = [1 / (1 + int(hears[:, j].sum())) for j in range(fed.N)]
            near = [peers.senders(hears, i) for i in range(fed.N)]
            pushed = [sum(gives[j] * mass[j] * z[j] for j in near[i]) for i in range(fed.N)]
            mass = [sum(gives[j] * mass[j] for j in near[i]) for i in range(fed.N)]
            z = [torch.where(shared, pushed[i] / mass[i], z[i]) for i in range(fed.N)]
    assert plain.apart(torch.stack(z), run.state["w"]) < 1e-9
    assert run.state["mu"].tolist() == pytest.approx(mass)
    assert run.state["mu"].sum().item() == pytest.approx(fed.N)
    assert (run.state["mu"] - 1).abs().max() > 0.05
