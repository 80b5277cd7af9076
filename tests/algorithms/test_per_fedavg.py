"""per-fedavg: plain transcriptions of both orders; a parameter that is read twice."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from repfl.algorithms.engine.batches import Batch
from repfl.algorithms.engine.client import Extras
from repfl.algorithms.engine.model import ClientModel
from tests.algorithms import plain, toys

ALPHA = 0.5


def meta_loss(first_order: bool) -> plain.Loss:
    """The loss on the second half of a batch after a step on the first."""

    def loss(p: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        half = (len(y) + 1) // 2
        second = slice(half, None) if half < len(y) else slice(None)
        inner = plain.cross_entropy(p, x[:half], y[:half])
        grads = torch.autograd.grad(inner, list(p.values()), create_graph=not first_order)
        after = {n: t - ALPHA * g for (n, t), g in zip(p.items(), grads, strict=True)}
        return plain.cross_entropy(after, x[second], y[second])

    return loss


@pytest.mark.parametrize("first_order", [False, True])
def test_per_fedavg_follows_its_plain_transcription(first_order: bool) -> None:
    hp = {"alpha": ALPHA, "first_order": first_order}
    run = toys.run("per-fedavg", hp, sizes=(25, 16, 9), dtype=torch.float64, stack=3)
    fed, w, loss = run.fed, run.fed.new_model(), meta_loss(first_order)
    for round_ in (1, 2, 3):
        ends = [plain.train(fed, w, client, round_, loss=loss)[0] for client in range(3)]
        w = sum(p * end for p, end in zip(plain.weights(fed, [0, 1, 2]), ends, strict=True))
    assert plain.apart(w, run.state["theta"]) < 1e-9
    scored = toys.everybody(run)
    for client in range(3):
        x, y = plain.batches(fed, client, 3, 1, stream="finetune")[0]
        tuned = w - ALPHA * plain.gradient(fed, w, x, y)
        assert plain.apart(tuned, scored[client]) < 1e-9


def test_a_parameter_that_a_loss_reads_twice_is_one_tensor() -> None:
    def squared_slope(model: ClientModel, batch: Batch, extras: Extras) -> Tensor:
        loss = F.cross_entropy(model(batch.x), batch.y)
        (g,) = torch.autograd.grad(loss, [model.tensors["fc2.weight"]], create_graph=True)
        return loss + g.square().sum() + model.tensors["fc2.weight"].sum()

    fed = toys.run("fedavg", sizes=(8, 8), rounds=1, dtype=torch.float64).fed
    start = fed.new_model()
    end = fed.train(start.repeat(2, 1), loss=squared_slope, epochs=1, lr=1.0)[0]
    ((x, y),) = plain.batches(fed, 0, 1, 1)
    leaf = start.clone().requires_grad_()
    named = plain.named(fed, leaf)
    loss = plain.cross_entropy(named, x, y)
    (g,) = torch.autograd.grad(loss, [named["fc2.weight"]], create_graph=True)
    loss = loss + g.square().sum() + named["fc2.weight"].sum()
    (expected,) = torch.autograd.grad(loss, leaf)
    assert plain.apart(start - end, expected) < 1e-12
