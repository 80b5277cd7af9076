"""FLOCO+ against a plain transcription; FLOCO is compared with FL-bench."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.math.simplex import principal, spread
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)


def test_places_are_found_in_round_tau_from_everybody_and_stay() -> None:
    run = toys.run("floco", {"endpoints": 3, "tau": 1}, rounds=1, participation=0.5)
    places = [run.state["places"].clone()]
    for _ in (2, 3):
        run.step()
        places.append(run.state["places"].clone())
    assert not torch.equal(places[0], places[1])
    assert torch.equal(places[1], places[2])


def points_for(
    fed: Federation, client: int, steps: int, ends: int, place: Any, rho: float, purpose: str
) -> list[Tensor]:
    """Where a client's steps lie in the simplex: anywhere, or around its place."""
    rng = fed.rng(purpose, client)
    if place is None:
        drawn = rng.standard_exponential((steps, ends))
        return [torch.from_numpy(row / row.sum()) for row in drawn]
    radii = fed.rng(f"{purpose}/radius", client).uniform(0, rho, steps)
    return [
        place + r * torch.from_numpy(u / np.abs(u).sum())
        for r, u in zip(radii, rng.uniform(-1, 1, (steps, ends)), strict=True)
    ]


def epochs(
    fed: Federation,
    flat: Tensor,
    ends: Tensor,
    batches: Any,
    points: list[Tensor],
    pull: Any = None,
) -> tuple[Tensor, Tensor]:
    """One client's training: the head weight is never a parameter, its endpoints are."""
    at, p = fed.params.head_weight, fed.protocol
    flat, ends = flat.clone(), ends.clone()
    buffers = [torch.zeros_like(flat), torch.zeros_like(ends)]
    for (x, y), point in zip(batches, points, strict=True):
        leaf, span = flat.clone().requires_grad_(), ends.clone().requires_grad_()
        weight = sum(a * end for a, end in zip(point, span, strict=True))
        params = plain.named(fed, leaf) | {at.name: weight}
        grads = list(torch.autograd.grad(plain.cross_entropy(params, x, y), [leaf, span]))
        if pull is not None:
            grads[0] = grads[0] + pull[0] * (flat - pull[1])
            grads[1] = grads[1] + pull[0] * (ends - pull[2])
        grads[0][at.start : at.stop] = 0
        buffers = [p.momentum * b + g for b, g in zip(buffers, grads, strict=True)]
        flat, ends = flat - p.lr * buffers[0], ends - p.lr * buffers[1]
    return flat, ends


def transcription(run: Run, hp: dict[str, Any], rounds: int) -> dict[str, Any]:
    """FLOCO+ client by client, everybody in every round."""
    fed, everyone, count = run.fed, range(run.fed.N), hp["endpoints"]
    share, theta = plain.weights(fed, list(everyone)), fed.new_model().double()
    places: list[Any] = [None] * fed.N
    size = (2 / (fed.classes + 32)) ** 0.5
    drawn = [fed.streams.at("method/endpoint", 0, v).standard_normal((4, 32)) for v in range(count)]
    ends = torch.from_numpy(size * np.array(drawn))
    own, own_ends = [theta] * fed.N, [ends] * fed.N

    def trained(i: int, start: Any, purpose: str, n: int, pull: Any = None, **where: Any) -> Any:
        chosen = plain.batches(fed, i, fed.round, n, **where)
        place = None if purpose == "projection" else places[i]
        points = points_for(fed, i, len(chosen), count, place, hp["rho"], purpose)
        return epochs(fed, *start, chosen, points, pull)

    for t in range(1, rounds + 1):
        fed.round, usual = t, fed.protocol.epochs
        if t - 1 == hp["tau"]:
            how = {"stream": "projection"}
            rows = [trained(i, (theta, ends), "projection", usual, **how)[1] for i in everyone]
            places = list(spread(principal(torch.stack(rows).flatten(1), count)))
        done = [trained(i, (theta, ends), "simplex", usual) for i in everyone]
        for i in everyone:
            pull, start = (hp["plus_lam"], theta, ends), (own[i], own_ends[i])
            later = {"pull": pull, "first": usual}
            own[i], own_ends[i] = trained(i, start, "plus", hp["plus_epochs"], **later)
        theta = sum(p * end for p, (end, _) in zip(share, done, strict=True))
        ends = sum(p * end for p, (_, end) in zip(share, done, strict=True))
    found = {"theta": theta, "ends": ends, "places": torch.stack(places)}
    return found | {"plus": torch.stack(own), "plus_ends": torch.stack(own_ends)}


def test_floco_plus_follows_its_plain_transcription() -> None:
    hp = {"endpoints": 3, "tau": 1, "rho": 0.3, "plus_epochs": 1, "plus_lam": 0.4}
    run = toys.run("floco", hp, sizes=SIZES, dtype=torch.float64, stack=4, momentum=0.6)
    expected = transcription(run, hp, 3)
    for name, value in expected.items():
        assert plain.apart(value, run.state[name]) < 1e-9


def test_fewer_clients_than_endpoints_leave_coordinates_at_zero() -> None:
    rows = torch.arange(60, dtype=torch.float64).view(2, 30).square()
    assert torch.equal(principal(rows, 5)[:, 2:], torch.zeros(2, 3, dtype=torch.float64))
