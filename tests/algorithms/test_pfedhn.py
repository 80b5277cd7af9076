"""pfedhn: a plain transcription."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.algorithms import plain, toys

SIZES = (25, 16, 9, 40)
HP = {"embedding": 3, "hidden": 7, "layers": 1, "server_lr": 0.1, "clip": 0.5}


def generated(net: dict[str, Tensor], client: int) -> Tensor:
    """A client's model, layer by layer."""
    x = net["embed.weight"][client]
    x = F.linear(x, net["net.0.weight"], net["net.0.bias"])
    x = F.linear(F.relu(x), net["net.2.weight"], net["net.2.bias"])
    return F.linear(x, net["net.3.weight"], net["net.3.bias"])


def test_pfedhn_follows_its_plain_transcription() -> None:
    half = {"participation": 0.5, "rounds": 4}
    run = toys.run("pfedhn", HP, sizes=SIZES, dtype=torch.float64, **half)
    fed = run.fed
    fed.round = 0
    begun = run.method.init(fed)
    net = {n.removeprefix("hyper/"): t for n, t in begun.items() if n.startswith("hyper/")}
    buffers = {n: torch.zeros_like(t) for n, t in net.items()}
    clipped = False
    for round_ in (1, 2, 3, 4):
        fed.begin(round_)
        grads = {n: torch.zeros_like(t) for n, t in net.items()}
        for client in fed.active_ids:
            leaves = {n: t.clone().requires_grad_() for n, t in net.items()}
            start = generated(leaves, client)
            end, _ = plain.train(fed, start.detach(), client, round_)
            back = torch.autograd.grad(start, list(leaves.values()), start.detach() - end)
            for n, g in zip(leaves, back, strict=True):
                grads[n] += g / fed.K
        norm = torch.stack([g.square().sum() for g in grads.values()]).sum().sqrt()
        scale = min(1.0, 0.5 / (norm.item() + 1e-6))
        clipped |= scale < 1
        for n, g in grads.items():
            buffers[n] = 0.9 * buffers[n] + scale * g + 1e-3 * net[n]
            net[n] = net[n] - 0.1 * buffers[n]
    assert clipped
    for n, expected in net.items():
        assert plain.apart(expected, run.state[f"hyper/{n}"]) < 1e-9, n
    models = torch.stack([generated(net, client) for client in range(fed.N)])
    assert plain.apart(models, toys.everybody(run)) < 1e-9
