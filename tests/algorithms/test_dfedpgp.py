"""dfedpgp: limiting cases, plain transcriptions of both forms, bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from repfl.algorithms.core import topology
from repfl.algorithms.core.method import build
from repfl.algorithms.core.run import Run
from tests.algorithms import peers, plain, toys

DOUBLE: dict[str, Any] = {"dtype": torch.float64, "sizes": peers.SIZES}
SGD = {"momentum": 0.9, "weight_decay": 0.01, "lr_decay": 0.9}


def still(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(plain.logits(p, x, train=False), y)


def head_phase(run: Run, w: Tensor, client: int, round_: int, lr: float, epochs: int) -> Tensor:
    """SGD on the head alone."""
    w, p, buffer = w.clone(), run.fed.protocol, torch.zeros_like(w)
    head = run.fed.params.head
    for x, y in plain.batches(run.fed, client, round_, epochs):
        buffer = p.momentum * buffer + plain.gradient(run.fed, w, x, y, still) + p.weight_decay * w
        w[head] -= lr * buffer[head]
    return w


def body_phase(
    run: Run,
    w: Tensor,
    client: int,
    round_: int,
    lr: float,
    mass: float,
    *,
    first: int,
    epochs: int,
) -> Tensor:
    """SGD on u = mass * z, gradients and decay taken at z; returns z with the untouched head."""
    w, p, buffer = w.clone(), run.fed.protocol, torch.zeros_like(w)
    body = run.fed.params.learnable & ~run.fed.params.head
    u = mass * w
    for x, y in plain.batches(run.fed, client, round_, epochs, first=first):
        buffer = p.momentum * buffer + plain.gradient(run.fed, w, x, y) + p.weight_decay * w
        u[body] -= lr * buffer[body]
        w[body] = u[body] / mass
    return w


@pytest.mark.parametrize("order", ["gossip-train", "train-gossip"])
@pytest.mark.parametrize("push_sum", [True, False])
@pytest.mark.parametrize("model", ["tiny", "tiny-bn"])
def test_dfedpgp_follows_its_plain_transcription(order: str, push_sum: bool, model: str) -> None:
    graph = "push" if push_sum else "pull"
    hp = {
        "degree": 2,
        "graph": graph,
        "push_sum": push_sum,
        "order": order,
        "head_lr": 0.02,
        "head_epochs": 2,
        "body_epochs": 3,
    }
    run = toys.run("dfedpgp", hp, model=model, **DOUBLE, **SGD)
    fed = run.fed
    shared = fed.params.learnable & ~fed.params.head
    z, mass = [fed.new_model() for _ in range(fed.N)], [1.0] * fed.N
    for round_ in (1, 2, 3):
        hears = peers.topology_at(fed, round_).graph(graph, 2)
        for step in order.split("-"):
            if step == "train":
                decay = 0.9 ** (round_ - 1)
                z = [head_phase(run, z[i], i, round_, 0.02 * decay, 2) for i in range(fed.N)]
                z = [
                    body_phase(run, z[i], i, round_, 0.05 * decay, mass[i], first=2, epochs=3)
                    for i in range(fed.N)
                ]
                continue
            gives = [1 / (1 + int(hears[:, j].sum())) if push_sum else 1 / 3 for j in range(fed.N)]
            u = [mass[i] * z[i] for i in range(fed.N)]
            pushed = [sum(gives[j] * u[j] for j in peers.senders(hears, i)) for i in range(fed.N)]
            mass = (
                [sum(gives[j] * mass[j] for j in peers.senders(hears, i)) for i in range(fed.N)]
                if push_sum
                else mass
            )
            z = [torch.where(shared, pushed[i] / mass[i], z[i]) for i in range(fed.N)]
    assert plain.apart(torch.stack(z), run.state["w"]) < 1e-9
    assert run.state["mu"].tolist() == pytest.approx(mass)
    assert run.state["mu"].sum().item() == pytest.approx(fed.N)
    assert not push_sum or (run.state["mu"] - 1).abs().max() > 0.05


@pytest.mark.parametrize("graph", ["complete", "regular", "ring"])
def test_dfedpgp_on_a_regular_undirected_graph_is_plain_gossip(graph: str) -> None:
    one, other = (
        toys.run("dfedpgp", {"degree": 2, "graph": graph, "push_sum": on}, **DOUBLE, **SGD)
        for on in (True, False)
    )
    assert one.state["mu"].tolist() == pytest.approx([1.0] * one.fed.N, abs=1e-14)
    assert plain.apart(one.state["w"], other.state["w"]) < 1e-12


def test_dfedpgp_trains_alike_in_both_orders_if_the_graph_stays() -> None:
    one, other = (
        toys.run("dfedpgp", {"graph": "ring", "order": order}, **DOUBLE, **SGD)
        for order in ("gossip-train", "train-gossip")
    )
    assert one.fed.trained is not None
    assert other.fed.trained is not None
    assert plain.apart(one.fed.trained, other.fed.trained) < 1e-12


def test_dfedpgp_on_the_body_alone_is_dfedavgm_with_the_first_heads() -> None:
    hp = {"graph": "regular", "degree": 2, "order": "train-gossip"}
    run = toys.run("dfedpgp", hp | {"head_epochs": 0}, **DOUBLE, **SGD)
    fed = run.fed
    w = fed.new_model().repeat(fed.N, 1)
    body = ~fed.params.head
    for round_ in (1, 2, 3):
        lr = 0.05 * 0.9 ** (round_ - 1)
        w = torch.stack(
            [plain.train(fed, w[i], i, round_, lr=lr, trainable=body)[0] for i in range(fed.N)]
        )
        w = torch.where(body, peers.topology_at(fed, round_).mixing("regular", 2) @ w, w)
    assert plain.apart(w, run.state["w"]) < 1e-12
    assert torch.equal(
        run.state["w"][:, fed.params.head], fed.new_model()[fed.params.head].expand(fed.N, -1)
    )


def test_dfedpgp_without_a_head_and_with_one_step_is_stochastic_gradient_push() -> None:
    held = toys.data(peers.SIZES)
    recipe = toys.recipe(clients=held.clients, epochs=1, batch=100)
    run = Run(
        build("dfedpgp", {"degree": 2, "order": "train-gossip"}),
        recipe,
        held,
        toys.headless(),
        seed=0,
        dtype=torch.float64,
    )
    run.start()
    u, mass = run.fed.new_model().repeat(run.fed.N, 1), torch.ones(run.fed.N, dtype=torch.float64)
    while not run.done:
        run.step()
        z = u / mass[:, None]
        batch = [plain.batches(run.fed, i, run.round, 1, first=1)[0] for i in range(run.fed.N)]
        u = u - 0.05 * torch.stack(
            [plain.gradient(run.fed, z[i], *batch[i]) for i in range(run.fed.N)]
        )
        shares = topology.column_stochastic(peers.topology_at(run.fed, run.round).graph("push", 2))
        u, mass = shares @ u, shares @ mass
    assert plain.apart(u / mass[:, None], run.state["w"]) < 1e-12


@pytest.mark.parametrize("push_sum", [True, False])
def test_dfedpgp_bills_a_body_and_its_mass_per_neighbour(push_sum: bool) -> None:
    run = toys.run("dfedpgp", {"degree": 2, "push_sum": push_sum})
    body = int((~run.fed.params.head).sum())
    assert (
        peers.traffic(run, "up_values")
        == peers.traffic(run, "down_values")
        == [4.0 * (body + push_sum) * 2 * run.fed.N] * 3
    )
