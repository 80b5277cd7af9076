"""FLOCO: limiting cases, a plain transcription, bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from repfl.algorithms.core.federation import Federation
from repfl.algorithms.core.run import Run
from repfl.algorithms.math.simplex import principal, spread
from tests.algorithms import plain, toys

SIZES = (25, 7, 12, 16)


# -- limiting cases --------------------------------------------------------------------------------


def test_places_are_found_in_round_tau_from_everybody_and_stay() -> None:
    states = [
        toys.run("floco", {"endpoints": 3, "tau": 1}, rounds=rounds, participation=0.5).state[
            "places"
        ]
        for rounds in (1, 2, 3)
    ]
    assert not torch.equal(states[0], states[1])
    assert torch.equal(states[1], states[2])


# -- a plain transcription -------------------------------------------------------------------------


def points_for(
    fed: Federation,
    client: int,
    steps: int,
    ends: int,
    place: Tensor | None,
    rho: float,
    purpose: str,
    round_: int,
) -> list[Tensor]:
    rng = fed.streams.at(f"method/{purpose}", round_, client)
    if place is None:
        drawn = rng.standard_exponential((steps, ends))
        return [torch.from_numpy(row / row.sum()) for row in drawn]
    radii = fed.streams.at(f"method/{purpose}/radius", round_, client).uniform(0, rho, steps)
    return [
        place + r * torch.from_numpy(u / np.abs(u).sum())
        for r, u in zip(radii, rng.uniform(-1, 1, (steps, ends)), strict=True)
    ]


def epochs(
    fed: Federation,
    flat: Tensor,
    ends: Tensor,
    batches: list[Any],
    points: list[Tensor],
    pull: Any = None,
) -> tuple[Tensor, Tensor]:
    """One client's training: the head weight is never a parameter, its endpoints are."""
    at, p = fed.params.head_weight, fed.protocol
    flat, ends = flat.clone(), ends.clone()
    buffers = [torch.zeros_like(flat), torch.zeros_like(ends)]
    for (x, y), point in zip(batches, points, strict=True):
        leaf, span = flat.clone().requires_grad_(), ends.clone().requires_grad_()
        params = plain.named(fed, leaf) | {
            at.name: sum(a * end for a, end in zip(point, span, strict=True))
        }
        grads = list(torch.autograd.grad(plain.cross_entropy(params, x, y), [leaf, span]))
        if pull is not None:
            grads = [
                g + pull[0] * (own - goal)
                for g, own, goal in zip(grads, (flat, ends), pull[1:], strict=True)
            ]
        grads[0][at.start : at.stop] = 0
        buffers = [p.momentum * b + g for b, g in zip(buffers, grads, strict=True)]
        flat, ends = flat - p.lr * buffers[0], ends - p.lr * buffers[1]
    return flat, ends


def transcription(run: Run, hp: dict[str, Any], rounds: int) -> dict[str, Any]:
    """FLOCO and FLOCO+ client by client, everybody in every round."""
    fed, everyone, count = run.fed, range(run.fed.N), hp["endpoints"]
    share, theta, places = (
        plain.weights(fed, list(everyone)),
        fed.new_model().double(),
        [None] * fed.N,
    )
    xavier = [
        (2 / (fed.classes + 32)) ** 0.5
        * fed.streams.at("method/endpoint", 0, v).standard_normal((fed.classes, 32))
        for v in range(count)
    ]
    ends = torch.from_numpy(np.array(xavier))
    own, own_ends = [theta] * fed.N, [ends] * fed.N
    for t in range(1, rounds + 1):

        def batches(i: int, n: int, t: int = t, **where: Any) -> list[Any]:
            return plain.batches(fed, i, t, n, **where)

        def points(
            i: int, steps: int, purpose: str, place: Tensor | None, t: int = t
        ) -> list[Tensor]:
            return points_for(fed, i, steps, count, place, hp["rho"], purpose, t)

        if t - 1 == hp["tau"]:
            rows = []
            for i in everyone:
                chosen = batches(i, fed.protocol.epochs, stream="projection")
                rows.append(
                    epochs(fed, theta, ends, chosen, points(i, len(chosen), "projection", None))[
                        1
                    ].flatten()
                )
            places = list(spread(principal(torch.stack(rows), count)))
        done = []
        for i in everyone:
            chosen = batches(i, fed.protocol.epochs)
            done.append(
                epochs(fed, theta, ends, chosen, points(i, len(chosen), "simplex", places[i]))
            )
            if hp["plus_epochs"]:
                chosen = batches(i, hp["plus_epochs"], first=fed.protocol.epochs)
                pull = (hp["plus_lam"], theta, ends)
                own[i], own_ends[i] = epochs(
                    fed,
                    own[i],
                    own_ends[i],
                    chosen,
                    points(i, len(chosen), "plus", places[i]),
                    pull,
                )
        theta = sum(p * end for p, (end, _) in zip(share, done, strict=True))
        ends = sum(p * end for p, (_, end) in zip(share, done, strict=True))
    return {
        "theta": theta,
        "ends": ends,
        "places": torch.stack(places),
        "plus": torch.stack(own),
        "plus_ends": torch.stack(own_ends),
    }


@pytest.mark.parametrize("plus_epochs", [0, 1])
def test_floco_follows_its_plain_transcription(plus_epochs: int) -> None:
    hp = {"endpoints": 3, "tau": 1, "rho": 0.3, "plus_epochs": plus_epochs, "plus_lam": 0.4}
    run = toys.run("floco", hp, sizes=SIZES, dtype=torch.float64, stack=4, momentum=0.6)
    expected = transcription(run, hp, 3)
    for name in ("theta", "ends", "places", *(("plus", "plus_ends") if plus_epochs else ())):
        assert plain.apart(expected[name], run.state[name]) < 1e-9


def test_floco_bills_all_endpoints_and_one_round_of_everybody() -> None:
    run = toys.run("floco", {"endpoints": 3, "tau": 1}, sizes=toys.EQUAL, participation=0.5)
    floats = run.fed.params.parameters + 2 * run.fed.params.head_weight.size
    assert toys.traffic(run, "up_values") == [4 * 2 * floats, 4 * 6 * floats, 4 * 2 * floats]
    assert toys.traffic(run, "down_values") == [
        4 * 2 * floats,
        4 * (6 * floats + 4 * 3),
        4 * 2 * floats,
    ]
    assert toys.traffic(run, "up_codes") == toys.traffic(run, "down_codes") == [0] * 3
