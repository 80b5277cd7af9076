"""lora against a plain transcription."""

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
