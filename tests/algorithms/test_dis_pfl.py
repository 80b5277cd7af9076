"""dis-pfl: the ERK rule, limiting cases, plain transcriptions of both ways to regrow, bytes."""

from __future__ import annotations

from math import ceil, cos, pi
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms import models
from repfl.algorithms.core.run import Run
from repfl.algorithms.engine.rng import splitmix64
from repfl.algorithms.math import sparse
from tests.algorithms import peers, plain, toys


def test_erk_on_resnet18_gn_has_the_known_number_of_non_zeros() -> None:
    layout = models.build("resnet18-gn", channels=3, size=32, classes=10).params
    found = sparse.erk_counts(layout, 0.5)
    assert sum(found.values()) == 5_586_977
    partly = {n: round(c / layout[n].size, 4) for n, c in found.items() if c < layout[n].size}
    assert partly == {
        "layers.2.0.conv2.weight": 0.7197,
        "layers.2.1.conv1.weight": 0.7197,
        "layers.2.1.conv2.weight": 0.7197,
        "layers.3.0.conv1.weight": 0.5377,
        "layers.3.0.conv2.weight": 0.3578,
        "layers.3.1.conv1.weight": 0.3578,
        "layers.3.1.conv2.weight": 0.3578,
    }


@pytest.mark.parametrize("density", [0.2, 0.5, 0.9, 1.0])
def test_erk_spends_its_budget_on_any_model(density: float) -> None:
    layout = models.build("tiny-bn", channels=1, size=8, classes=4).params
    found = sparse.erk_counts(layout, density)
    assert sum(found.values()) == pytest.approx(density * layout.parameters, abs=len(found))
    assert set(found) == {s.name for s in layout if s.kind != "stat"}


def test_first_masks_are_exactly_as_dense_as_asked_and_one_per_client() -> None:
    run = toys.run("dis-pfl", {"density": 0.3}, model="tiny-bn", rounds=1, epochs=0)
    mask = run.method.init(run.fed)["mask"]
    for name, count in sparse.erk_counts(run.fed.params, 0.3).items():
        assert mask[:, run.fed.params[name].place].sum(1).tolist() == [count] * run.fed.N
    assert bool(mask[:, run.fed.params.stats].all())
    assert len({bytes(row.numpy().tobytes()) for row in mask}) == run.fed.N
    common = toys.run("dis-pfl", {"density": 0.3, "masks": "common"}, rounds=1, epochs=0)
    assert bool((common.state["sent"] == common.state["sent"][0]).all())


@pytest.mark.parametrize("buffers", ["local", "global"])
def test_dis_pfl_averages_statistics_only_where_the_protocol_does(buffers: str) -> None:
    how: dict[str, Any] = {"model": "tiny-bn", "sizes": peers.SIZES, "buffers": buffers}
    run = toys.run("dis-pfl", {"graph": "complete", "density": 0.5}, **how)
    run.fed.begin(4, all_clients=True)
    stats = run.fed.params.stats
    w, sent, mask = (run.state[name] for name in ("w", "sent", "mask"))
    before, after = w[:, stats], run.method.gossip(run.fed, w, sent, mask)[:, stats]
    if buffers == "local":
        assert torch.equal(before, after)
    else:
        assert torch.allclose(after, before.mean(0).expand_as(after))


def evolved(run: Run, w: np.ndarray, mask: np.ndarray, round_: int, wish: np.ndarray) -> np.ndarray:
    """Prune by magnitude and regrow by wish, tensor by tensor, with sorts."""
    share = 0.5 / 2 * (1 + cos(pi * (round_ - 1) / run.fed.rounds))
    new = mask.copy()
    for s in (s for s in run.fed.params if s.kind != "stat"):
        part, held, wished = new[s.place], mask[s.place], wish[s.place]
        swaps = ceil(share * held.sum())
        magnitude = np.where(held, np.abs(w[s.place]), np.inf)
        part[np.argsort(magnitude, kind="stable")[:swaps]] = False
        empty = np.flatnonzero(~part)
        part[empty[np.argsort(-wished[empty], kind="stable")[:swaps]]] = True
    return new


def trained(run: Run, w: Tensor, mask: Tensor, client: int, round_: int) -> Tensor:
    """SGD with clipping by the norm of the whole gradient, the mask applied after every step."""
    p, buffer = run.fed.protocol, torch.zeros_like(w)
    for x, y in plain.batches(run.fed, client, round_, p.epochs):
        g = plain.gradient(run.fed, w, x, y)
        g = g * min(1.0, p.clip / (float(g.norm()) + 1e-6))
        buffer = p.momentum * buffer + g + p.weight_decay * w
        w = torch.where(run.fed.params.learnable, (w - p.lr * buffer) * mask, w)
    return w


@pytest.mark.parametrize("regrow", ["random", "gradient"])
def test_dis_pfl_follows_its_plain_transcription(regrow: str) -> None:
    how: dict[str, Any] = {"momentum": 0.9, "weight_decay": 0.01, "clip": 0.5}
    how |= {"dtype": torch.float64, "sizes": peers.SIZES}
    run = toys.run("dis-pfl", {"density": 0.3, "degree": 2, "regrow": regrow}, **how)
    fed = run.fed
    clients = range(fed.N)
    fed.round = 0
    mask = run.method.init(fed)["mask"]
    sent, w = mask.clone(), mask * fed.new_model()
    for round_ in (1, 2, 3):
        fed.round = round_
        hears = peers.topology_at(fed, round_).pull(2)
        start = torch.zeros_like(w)
        for i in clients:
            near = peers.senders(hears, i)
            holders = sum(sent[j].double() for j in near)
            mean = sum(w[j] for j in near) / holders.clamp(min=1)
            start[i] = torch.where(holders > 0, mean, 0.0) * mask[i]
        w = torch.stack([trained(run, start[i], mask[i], i, round_) for i in clients])
        if regrow == "random":
            wish = splitmix64(run.method.keys(fed, "regrow"), 0, fed.D).numpy().astype(object)
        else:
            screen = [plain.batches(fed, i, round_, 1, stream="screen")[0] for i in clients]
            wish = np.stack([plain.gradient(fed, w[i], *screen[i]).abs().numpy() for i in clients])
        sent = mask
        new = [evolved(run, w[i].numpy(), sent[i].numpy(), round_, wish[i]) for i in clients]
        mask = torch.from_numpy(np.stack(new))
    assert plain.apart(w, run.state["w"]) < 1e-9
    assert torch.equal(mask, run.state["mask"])
    assert torch.equal(sent, run.state["sent"])


def test_dis_pfl_bills_its_entries_and_a_bitmap_per_neighbour() -> None:
    run = toys.run("dis-pfl", {"density": 0.3, "degree": 2})
    entries, sends = sum(sparse.erk_counts(run.fed.params, 0.3).values()), 2 * run.fed.N
    bitmap = -(-run.fed.params.parameters // 8)
    for way in ("up", "down"):
        assert toys.traffic(run, f"{way}_values") == [4 * entries * sends] * 3
        assert toys.traffic(run, f"{way}_codes") == [bitmap * sends] * 3
