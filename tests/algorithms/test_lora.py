"""lora: a plain transcription, bytes, and the vision transformer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
RANK, SCALE = 3, 1.5


def factors(fed: Federation) -> dict[str, Tensor]:
    """The start: A as drawn, B at zero, the head as the base has it."""
    fed.round = 0
    w = plain.named(fed, fed.new_model())
    size = w["fc1.weight"].shape
    a = fed.rng("factor/fc1.weight").uniform(-1, 1, (RANK, size[1])) / size[1] ** 0.5
    head = {name: w[name].clone() for name in ("fc2.weight", "fc2.bias")}
    return {"a": torch.from_numpy(a), "b": torch.zeros(size[0], RANK).double()} | head


@pytest.mark.parametrize("shared", ["both", "a"])
def test_lora_follows_its_plain_transcription(shared: str) -> None:
    hp = {"rank": RANK, "scale": SCALE, "shared": shared}
    how: dict[str, Any] = {"participation": 0.5, "rounds": 4, "momentum": 0.9, "sizes": SIZES}
    run = toys.run("lora", hp, dtype=torch.float64, **how)
    fed, base = run.fed, plain.named(run.fed, run.fed.new_model())
    clients = [factors(fed) for _ in SIZES]
    server = {name: clients[0][name] for name in (("a", "b") if shared == "both" else ("a",))}

    def adapted(adapter: dict[str, Tensor]) -> dict[str, Tensor]:
        change = SCALE * adapter["b"] @ adapter["a"]
        head = {name: adapter[name] for name in ("fc2.weight", "fc2.bias")}
        return base | {"fc1.weight": base["fc1.weight"] + change} | head

    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        means = {name: torch.zeros_like(t) for name, t in server.items()}
        for p, i in zip(plain.weights(fed, fed.active_ids), fed.active_ids, strict=True):
            adapter = clients[i] | server
            buffers = {name: torch.zeros_like(t) for name, t in adapter.items()}
            for x, y in plain.batches(fed, i, round_, 2):
                leaves = {name: t.clone().requires_grad_() for name, t in adapter.items()}
                loss = F.cross_entropy(plain.logits(adapted(leaves), x), y)
                grads = torch.autograd.grad(loss, list(leaves.values()))
                for name, g in zip(leaves, grads, strict=True):
                    buffers[name] = 0.9 * buffers[name] + g
                    adapter[name] = adapter[name] - fed.lr * buffers[name]
            clients[i] = adapter
            for name, mean in means.items():
                mean += p * adapter[name]
        server = means
    for name, t in server.items():
        assert plain.apart(t, run.state[f"shared/{name}/fc1.weight"]) < 1e-9
    for i, scored in enumerate(toys.everybody(run)):
        expected = adapted(clients[i] | server)
        assert plain.apart(fed.params.flatten(expected), scored) < 1e-9
        assert torch.equal(scored[fed.params["conv1.weight"].place], fed.new_model()[:72])


@pytest.mark.parametrize("shared", ["both", "a"])
def test_shared_factors_alone_are_sent(shared: str) -> None:
    run = toys.run("lora", {"rank": 2, "shared": shared}, model="vit4", sizes=(16, 8), rounds=2)
    layers = 4 * [(192, 64), (64, 64), (128, 64), (64, 128)]
    floats = sum(2 * into + (2 * out if shared == "both" else 0) for out, into in layers)
    for direction in ("up", "down"):
        assert toys.traffic(run, f"{direction}_values") == [4 * 2 * floats] * 2


def test_a_vision_transformer_learns_with_a_frozen_base() -> None:
    how: dict[str, Any] = {"model": "vit4", "sizes": (40, 40), "lr": 0.05}
    run = toys.run("lora", {"rank": 4}, rounds=6, **how)
    fed, scored = run.fed, toys.everybody(run)
    for flat, index in zip(scored, fed.data.train, strict=True):
        x, y = fed.data.inputs(index), fed.data.labels[index]
        before, after = (
            F.cross_entropy(fed.model.bind(fed.params.unflatten(w))(x), y)
            for w in (fed.new_model(), flat)
        )
        assert after < 0.7 * before
    frozen = fed.params.norm | fed.params.where(kind="conv")
    assert torch.equal(scored[0, frozen], fed.new_model()[frozen])
